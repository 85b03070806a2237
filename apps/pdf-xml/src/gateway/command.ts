import type { AppCommand, CommandCall } from 'redress/http'
import type { RunGatewayOptions } from './main.ts'

const LEVELS = ['debug', 'info', 'warn', 'error'] as const

export const gateway: AppCommand = {
  usage: 'gateway',
  summary: 'Serve the converter of pdf-xml on its own: PDF in, XML out.',
  options: [
    { name: 'port', kind: 'number', description: 'port to listen on, 0 for any that is free', fallback: '7380' },
    { name: 'host', value: 'ADDRESS', kind: 'text', description: 'address to listen on', fallback: '127.0.0.1' },
    {
      name: 'mappings',
      value: 'DIR',
      kind: 'text',
      description: 'folder with mappings of your own (JSON), beside those that ship',
    },
    {
      name: 'parsers',
      kind: 'number',
      description: 'documents that are parsed at once, each in a process of its own',
      fallback: '1',
    },
    {
      name: 'waiting',
      kind: 'number',
      description: 'requests that may wait for one; the next is answered 503',
      fallback: '16',
    },
    { name: 'parse-time', value: 'TIME', kind: 'text', description: 'how long one document may take', fallback: '60s' },
    {
      name: 'memory',
      kind: 'number',
      description: 'megabytes that the process of one document may have',
      fallback: '330',
    },
    { name: 'faults', kind: 'flag', description: 'offer POST /faults, by which anybody can make it fail: for drills' },
    {
      name: 'log-level',
      kind: 'choice',
      description: 'lowest level that is logged, as JSON lines on standard error',
      choices: LEVELS,
      fallback: 'info',
    },
  ],
  examples: ['redress gateway', 'redress gateway --port 7380 --mappings ./mappings', 'redress gateway --faults'],
  async run(call) {
    const { runGateway } = await import('./main.ts')
    const level = LEVELS.find((one) => one === call.text('log-level')) ?? 'info'
    await runGateway({ ...optionsOf(call), log: await call.log(level) })
  },
}

function optionsOf(call: CommandCall): RunGatewayOptions {
  return {
    port: call.number('port', 0) ?? 7380,
    faults: call.flag('faults'),
    ...given('host', call.text('host')),
    ...given('mappingsDir', call.text('mappings')),
    ...given('parsers', call.number('parsers', 1)),
    ...given('queueMax', call.number('waiting', 0)),
    ...given('memoryMb', call.number('memory', 100)),
    ...given('parseMs', call.durationMs('parse-time')),
  }
}

const given = <Name extends string, Value>(name: Name, value: Value | undefined) =>
  (value === undefined ? {} : { [name]: value }) as { [key in Name]?: Value }
