import { expect, test } from 'vitest'
import { RedressError } from '../../../src/core/errors.ts'
import { AttemptFailed, AttemptTimeout, TotalTimeout } from '../../../src/core/failure/attempt-failed.ts'
import { checkRules, classify, type HttpStatus, type Rule, rule } from '../../../src/core/failure/classify.ts'
import { factsOf } from '../../../src/core/failure/facts.ts'
import type { Phase } from '../../../src/core/failure/failure.ts'
import { type CodeSpec, failureCodes, withEngineCodes } from '../../../src/core/failure/taxonomy.ts'

const row: CodeSpec = { fault: 'dependency', retry: 'transient', message: 'Failed.' }
const codes = withEngineCodes(
  failureCodes({ A: row, B: row, GW_4XX: row, GW_5XX: row, GW_TIMEOUT: row, IO_ERROR: row }),
)
const error = (props: object, message = 'failed') => Object.assign(new Error(message), props)

function codeOf(thrown: unknown, rules: readonly Rule[], stage: Phase = 'execution'): string {
  return classify(factsOf(thrown, stage), rules, codes).code
}

test('400, 406, 413 and 415 are GW_4XX, any 5xx and the network GW_5XX, a timeout GW_TIMEOUT [D7]', () => {
  const rules = [
    rule.http({ status: [400, 406, 413, 415] }, 'GW_4XX'),
    rule.http({ status: '5xx' }, 'GW_5XX'),
    rule.timeout('GW_TIMEOUT'),
    rule.errno(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND'], 'GW_5XX'),
    rule.errno('ENOSPC', 'IO_ERROR'),
  ]
  checkRules(rules, codes)
  for (const status of [400, 406, 413, 415]) expect(codeOf(error({ status }), rules)).toBe('GW_4XX')
  for (const status of [500, 502, 503, 599]) expect(codeOf(error({ status }), rules)).toBe('GW_5XX')
  expect(codeOf(error({ status: 404 }), rules)).toBe('UNKNOWN')
  expect(codeOf(new TypeError('fetch failed', { cause: error({ code: 'ECONNREFUSED' }) }), rules)).toBe('GW_5XX')
  expect(codeOf(new DOMException('', 'TimeoutError'), rules)).toBe('GW_TIMEOUT')
  expect(codeOf(new AttemptTimeout(5), rules)).toBe('GW_TIMEOUT')
  expect(codeOf(error({ code: 'ENOSPC' }), rules)).toBe('IO_ERROR')
})

test('exit status 137 and SIGKILL are classified alike [W23]', () => {
  const byExit = [rule.exit(137, 'A')]
  const bySignal = [rule.signal('SIGKILL', 'A')]
  for (const rules of [byExit, bySignal]) {
    expect(codeOf(error({ exitCode: 137 }), rules)).toBe('A')
    expect(codeOf(error({ code: null, signal: 'SIGKILL', killed: true }), rules)).toBe('A')
    expect(codeOf(error({ exitCode: 1 }), rules)).toBe('UNKNOWN')
    expect(codeOf(error({ signal: 'SIGTERM' }), rules)).toBe('UNKNOWN')
  }
  expect(codeOf(error({ exitCode: 143 }), [rule.signal(['SIGINT', 'SIGTERM'], 'A')])).toBe('A')
  expect(codeOf(error({ exitCode: 255 }), [rule.signal(['SIGINT', 'SIGTERM'], 'A')])).toBe('UNKNOWN')
})

test('an exit status that is not 0 includes death by a signal, but not an error without any process', () => {
  const rules = [rule.exit('nonzero', 'A')]
  expect(codeOf(error({ exitCode: 1 }), rules)).toBe('A')
  expect(codeOf(error({ signal: 'SIGSEGV' }), rules)).toBe('A')
  expect(codeOf(error({ exitCode: 0 }), rules)).toBe('UNKNOWN')
  expect(codeOf(error({}), rules)).toBe('UNKNOWN')
})

test("a corrupt source is classified by ffmpeg's stderr [W22]", () => {
  const rules = [rule.message(/invalid data found when processing input|moov atom not found/i, 'A')]
  expect(codeOf(error({ exitCode: 1, stderr: '[mov] moov atom not found\n' }), rules)).toBe('A')
  expect(codeOf(error({}, 'Invalid data found when processing input'), rules)).toBe('A')
  expect(codeOf(error({ stderr: "Input #0, mov, from 'a.mp4'" }), rules)).toBe('UNKNOWN')
})

test("a missing file is the caller's fault only when the failure's subject is the input [W22]", () => {
  const rules = [rule.when({ errno: 'ENOENT', subject: 'input' }, 'A'), rule.errno('ENOENT', 'B')]
  expect(codeOf(error({ code: 'ENOENT', subject: 'input' }), rules)).toBe('A')
  expect(codeOf(error({ code: 'ENOENT', subject: 'output' }, 'Input #0: no such file'), rules)).toBe('B')
})

test('each kind of rule matches its fact and nothing else [F20]', () => {
  const cases: [Rule, object, object][] = [
    [rule.http({ status: 503 }, 'A'), { status: 503 }, { status: 500 }],
    [rule.errno('ENOSPC', 'A'), { code: 'ENOSPC' }, { code: 'ENOENT' }],
    [rule.s3(['AccessDenied', 'NoSuchBucket'], 'A'), { code: 'NoSuchBucket' }, { code: 'SlowDown' }],
    [rule.subject('input', 'A'), { subject: 'input' }, { subject: 'output' }],
    [rule.name('ConvertError', 'A'), { name: 'ConvertError' }, { name: 'TypeError' }],
    [rule.message(/full/i, 'A'), { message: 'disk FULL' }, { message: 'disk ok' }],
    [rule.when({ http: 403, s3: 'AccessDenied' }, 'A'), { code: 'AccessDenied', status: 403 }, { status: 403 }],
  ]
  for (const [one, yes, no] of cases) {
    expect(codeOf(error(yes), [one]), one.text).toBe('A')
    expect(codeOf(error(no), [one]), one.text).toBe('UNKNOWN')
  }
  expect(codeOf(error({}), [rule.phase('verification', 'A')], 'verification')).toBe('A')
  expect(codeOf(error({}), [rule.phase('verification', 'A')], 'execution')).toBe('UNKNOWN')
})

test('the first matching rule wins and is named in the record', () => {
  const rules = [rule.http({ status: [400, 406, '5xx'] }, 'A'), rule.http({ status: 503 }, 'B')]
  expect(classify(factsOf(error({ status: 503 }), 'execution'), rules, codes)).toEqual({
    code: 'A',
    rule: 'HTTP status 400, 406 or 5xx',
  })
  const all = rule.when({ phase: 'execution', exit: 'nonzero', signal: 'SIGKILL', message: /x\/y/i }, 'A')
  expect(all.text).toBe('phase execution and exit status not 0 and killed by SIGKILL and text matches /x\\/y/i')
})

test('rules survive a journey through JSON, and a global expression does not remember where it stopped', () => {
  const rules = [rule.message(/boom/gi, 'A')]
  const stored = JSON.parse(JSON.stringify(rules)) as Rule[]
  for (const one of [rules, stored, stored]) {
    expect(codeOf(new Error('BOOM'), one)).toBe('A')
    expect(codeOf(new Error('BOOM'), one)).toBe('A')
  }
})

test('a code declared by the handler stands above every rule, if the taxonomy has it', () => {
  const rules = [rule.http({ status: 502 }, 'B')]
  const cause = error({ status: 502 })
  expect(classify(factsOf(new AttemptFailed('A', { cause }), 'execution'), rules, codes)).toEqual({
    code: 'A',
    rule: 'declared by the handler',
  })
  for (const undeclared of ['TYPO', 'constructor', '__proto__']) {
    const found = classify(factsOf(new AttemptFailed(undeclared, { cause }), 'execution'), rules, codes)
    expect(found.code).toBe('CODE_UNDECLARED')
    expect(found.rule).toContain(undeclared)
  }
})

test('a throw while verifying is a verification failure, never an execution one [P33 P34]', () => {
  expect(codeOf(new Error('codec mismatch'), [], 'verification')).toBe('VERIFICATION_FAILED')
  expect(codeOf(new Error('codec mismatch'), [], 'execution')).toBe('UNKNOWN')
})

test('the engine’s own limits have their codes when no rule says otherwise', () => {
  expect(codeOf(new AttemptTimeout(1000), [])).toBe('TIMEOUT')
  expect(codeOf(new TotalTimeout(1000), [])).toBe('TOTAL_TIMEOUT')
  // A rule meant for slow dependencies must not make a job retryable whose time is used up.
  expect(codeOf(new TotalTimeout(1000), [rule.timeout('GW_TIMEOUT')])).toBe('TOTAL_TIMEOUT')
  expect(codeOf(new DOMException('', 'TimeoutError'), [])).toBe('UNKNOWN')
})

test('a job type accepts only rules whose codes its taxonomy has', () => {
  const own = failureCodes({ GW_5XX: row, GW_4XX: row })
  const accept = <T extends Record<string, CodeSpec>>(_table: T, rules: readonly Rule<keyof T & string>[]) =>
    rules.length
  expect(accept(own, [rule.http({ status: '5xx' }, 'GW_5XX'), rule.timeout('GW_4XX')])).toBe(2)
  // @ts-expect-error a misspelt code must not compile
  expect(accept(own, [rule.http({ status: '5xx' }, 'GW_5X')])).toBe(1)
})

test('every rule that could not work is named at once', () => {
  const rules: Rule[] = [
    rule.timeout('TYPO'),
    rule.message(/boom/, 'A'),
    rule.when({}, 'A'),
    rule.http({ status: [99, 600, '6xx' as HttpStatus, 404] }, 'A'),
    rule.errno([], 'A'),
    rule.exit([-1, 1.5], 'A'),
    rule.phase('encoding' as Phase, 'A'),
    rule.timeout('B'),
  ]
  const check = () => checkRules(rules, codes)
  expect(check).toThrow(RedressError)
  let problems: readonly string[] = []
  try {
    check()
  } catch (thrown) {
    expect((thrown as RedressError).code).toBe('RULE_INVALID')
    problems = (thrown as RedressError).problems
  }
  expect(problems.map((problem) => /^rule \d/.exec(problem)?.[0])).toEqual([
    'rule 1',
    'rule 2',
    'rule 3',
    'rule 4',
    'rule 4',
    'rule 4',
    'rule 5',
    'rule 6',
    'rule 6',
    'rule 7',
    'rule 8',
  ])
  expect(problems[0]).toContain('no code TYPO')
  expect(problems[1]).toContain('text patterns come last')
  expect(problems[10]).toContain('rule 1 matches the same')
})

test('text patterns come last, unless a structured fact narrows them', () => {
  const nonzero = rule.exit('nonzero', 'A')
  const text = rule.message(/moov/, 'B')
  expect(() => checkRules([text, nonzero], codes)).toThrow('text patterns come last')
  checkRules([nonzero, text, rule.message(/other/, 'A')], codes)
  checkRules([rule.when({ exit: 'nonzero', message: /moov/ }, 'B'), nonzero], codes)
})
