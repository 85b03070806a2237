import { durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import type { LogLevel } from '../runtime/json-log.ts'
import type { Program } from './invoke.ts'
import { ownOption, type Parsed } from './parse.ts'

/** What the gateway is told; it is an app's, so that its own words are not ours to import. */
interface Options {
  host?: string
  port?: number
  mappingsDir?: string
  parsers?: number
  queueMax?: number
  parseMs?: number
  memoryMb?: number
  faults?: boolean
  log: unknown
}

export const gateway: Program = {
  options: [
    ownOption('port', 'number', 'port to listen on, 0 for any that is free', { fallback: '7380' }),
    ownOption('host ADDRESS', 'text', 'address to listen on', { fallback: '127.0.0.1' }),
    ownOption('mappings DIR', 'text', 'folder with mappings of your own (JSON), beside those that ship'),
    ownOption('parsers', 'number', 'documents that are parsed at once, each in a process of its own', {
      fallback: '1',
    }),
    ownOption('waiting', 'number', 'requests that may wait for one; the next is answered 503', { fallback: '16' }),
    ownOption('parse-time TIME', 'text', 'how long one document may take', { fallback: '60s' }),
    ownOption('memory', 'number', 'megabytes that the process of one document may have', { fallback: '330' }),
    ownOption('faults', 'flag', 'offer POST /faults, by which anybody can make it fail: for drills'),
    ownOption('log-level', 'choice', 'what is logged, as JSON lines on standard error', {
      fallback: 'info',
      choices: ['debug', 'info', 'warn', 'error'],
    }),
  ],
  places: [],
  examples: ['redress gateway', 'redress gateway --port 7380 --mappings ./mappings', 'redress gateway --faults'],
  async run(_command, { values }: Parsed) {
    const { jsonLog } = await import('../runtime/json-log.ts')
    const options: Options = {
      port: numberOf(values, 'port', 0) ?? 7380,
      ...(typeof values.host === 'string' && { host: values.host }),
      ...(typeof values.mappings === 'string' && { mappingsDir: values.mappings }),
      ...given('parsers', numberOf(values, 'parsers', 1)),
      ...given('queueMax', numberOf(values, 'waiting', 0)),
      ...given('memoryMb', numberOf(values, 'memory', 100)),
      ...(typeof values['parse-time'] === 'string' && { parseMs: durationMs(values['parse-time'], '--parse-time') }),
      faults: values.faults === true,
      log: jsonLog({ level: (values['log-level'] ?? 'info') as LogLevel }),
    }
    // By the name of the package, as any program would: an app is not part of the engine.
    const name = 'redress/apps/pdf-xml/gateway'
    const { runGateway } = (await import(name)) as { runGateway(options: Options): Promise<void> }
    await runGateway(options)
  },
}

const given = (name: string, value: number | undefined) => (value === undefined ? {} : { [name]: value })

function numberOf(values: Parsed['values'], option: string, least: number): number | undefined {
  const text = values[option]
  if (typeof text !== 'string') return undefined
  const value = Number(text)
  if (Number.isInteger(value) && value >= least) return value
  throw new RedressError('OPTION_INVALID', `--${option} must be a whole number from ${least} on, not ${text}.`)
}
