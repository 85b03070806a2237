import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { failureCodes, type Taxonomy, withEngineCodes } from '../../core/failure/taxonomy.ts'
import { checkPolicyCodes, type Policy, policyFromJson } from '../../core/policy/policy.ts'
import { renderTimeline, simulate as simulatePolicy } from '../../core/policy/simulate.ts'
import { seededChance } from '../../runtime/chance.ts'
import { ownOption } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { policyLines } from '../render/types.ts'
import { terminalOf } from '../terminal/terminal.ts'

interface NamedPolicy {
  name: string
  policy: Policy
  codes: Taxonomy
}

const places = [
  {
    name: 'file',
    description: 'a policy as JSON, { "policy": ..., "codes": ... } as JSON, or a module that exports an app',
  },
]
export const check: Program = {
  options: [],
  places,
  examples: ['redress policy check policy.json', 'redress policy check app.ts'],
  async run(_command, { positionals, values }) {
    const found = await policiesIn(positionals[0] as string)
    if (values.json === true) {
      process.stdout.write(
        `${JSON.stringify({ policies: found.map(({ name, policy }) => ({ name, policy })) }, null, 2)}\n`,
      )
      return
    }
    const terminal = terminalOf(process.stdout, process.env, Date.now())
    const texts = found.map(({ name, policy }) => `${terminal.paint('strong', name)}\n${policyLines(policy, terminal)}`)
    process.stdout.write(`${texts.join('\n')}\n${terminal.paint('good', 'No contradictions.')}\n`)
  },
}

export const simulate: Program = {
  options: [
    ownOption(
      'failures LIST',
      'text',
      'outcomes in order: failure codes, ok, crash, unknown; such as GW_5XX,GW_5XX,ok',
    ),
    ownOption('seed', 'number', 'seed of the jitter; without it, the middle of its range is used'),
    ownOption('type TYPE', 'text', 'job type, if the app declares several'),
  ],
  places,
  examples: ['redress policy simulate policy.json --failures GW_5XX,crash,ok --seed 7'],
  async run(_command, { positionals, values }) {
    const { name, policy, codes } = oneOf(await policiesIn(positionals[0] as string), values.type)
    const outcomes = String(values.failures ?? '')
      .split(',')
      .map((outcome) => outcome.trim())
      .filter((outcome) => outcome !== '')
    if (outcomes.length === 0) {
      throw new RedressError('USAGE', '--failures is missing.', {
        action: 'Add --failures GW_5XX,GW_5XX,ok with codes of your own, ok, crash or unknown.',
      })
    }
    const chance = typeof values.seed === 'string' ? seededChance(Number(values.seed))() : 0.5
    const steps = simulatePolicy(policy, codes, outcomes, { chance })
    if (values.json === true) process.stdout.write(`${JSON.stringify({ name, steps }, null, 2)}\n`)
    else process.stdout.write(renderTimeline(steps, outcomes))
  },
}

function oneOf(found: readonly NamedPolicy[], type: unknown): NamedPolicy {
  const chosen = typeof type === 'string' ? found.find(({ name }) => name === type) : found[0]
  const names = found.map(({ name }) => name).join(', ')
  if (chosen === undefined) throw new RedressError('TYPE_UNKNOWN', `The app declares no type ${type}; it has ${names}.`)
  if (type === undefined && found.length > 1) {
    throw new RedressError('USAGE', `The app declares several types: ${names}.`, { action: 'Choose one with --type.' })
  }
  return chosen
}

async function policiesIn(file: string): Promise<NamedPolicy[]> {
  if (/\.[cm]?[jt]s$/.test(file)) {
    const { loadApp } = await import('../apps/load.ts')
    const app = await loadApp(file, { location: 'sqlite::memory:', flags: '', isGiven: true })
    return app.types.flatMap((name) => {
      const described = app.describe(name)
      return described === null ? [] : [{ name, ...described }]
    })
  }
  const value = readJsonFile(file)
  const isPair = typeof value === 'object' && value !== null && 'policy' in value
  if (!isPair) return [{ name: file, policy: policyFromJson(value), codes: withEngineCodes<string>({}) }]
  const { policy, codes, ...others } = value as { policy: unknown; codes?: Taxonomy }
  const other = Object.keys(others)[0]
  if (other !== undefined) {
    throw new RedressError('POLICY_INVALID', `${file}: ${other}: no such field; beside policy there may be codes.`)
  }
  const named = {
    name: file,
    policy: policyFromJson(policy),
    codes: withEngineCodes<string>(failureCodes(codes ?? {})),
  }
  // Without codes the file is about a policy alone, and any code may be meant.
  if (codes !== undefined) checkPolicyCodes(named.policy, named.codes)
  return [named]
}

function readJsonFile(file: string): unknown {
  let text: string
  try {
    text = readFileSync(resolve(file), 'utf8')
  } catch (error) {
    throw new RedressError('USAGE', `${file} cannot be read.`, { cause: error, action: 'Check the path.' })
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw new RedressError('POLICY_INVALID', `${file} is not JSON: ${problem}.`)
  }
}
