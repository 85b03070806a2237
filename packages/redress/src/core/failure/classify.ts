import { RedressError } from '../errors.ts'
import type { Facts } from './facts.ts'
import { PHASES, type Phase } from './failure.ts'
import type { Taxonomy } from './taxonomy.ts'

export type HttpStatus = number | '1xx' | '2xx' | '3xx' | '4xx' | '5xx'

/** What must hold for a rule to fire: every field that is there. Plain data, so rules can be stored and shown. */
interface Match {
  phase?: Phase
  errno?: readonly string[]
  exit?: readonly number[] | 'nonzero'
  signal?: readonly string[]
  http?: readonly HttpStatus[]
  s3?: readonly string[]
  subject?: readonly string[]
  timeout?: true
  name?: readonly string[]
  message?: { source: string; flags: string }
}

/** A classification rule, as `rule` makes it. */
export interface Rule<Code extends string = string> {
  match: Match
  code: Code
  /** The match in words; stored with every failure it classifies. */
  text: string
}

type OneOrMore<T> = T | readonly T[]

interface Conditions {
  phase?: Phase
  errno?: OneOrMore<string>
  exit?: OneOrMore<number> | 'nonzero'
  signal?: OneOrMore<string>
  http?: OneOrMore<HttpStatus>
  s3?: OneOrMore<string>
  subject?: OneOrMore<string>
  timeout?: true
  name?: OneOrMore<string>
  /** Tried on the error's message and on the tail of its stderr. */
  message?: RegExp
}

/**
 * Makes classification rules. The rules of a job type are tried in order; the first that matches gives the code. Each
 * rule also looks at the causes of an error (`cause`, and `errors` of an AggregateError), the outermost first.
 */
export const rule = {
  /** Matches if all conditions hold: `rule.when({ exit: 1, message: /no space/ }, 'DISK_FULL')`. */
  when,
  /**
   * Matches the HTTP status of an error: `status`, `statusCode`, `response.status`, `response.statusCode`, or
   * `$metadata.httpStatusCode` of the AWS SDK. `'5xx'` stands for a hundred statuses. An error of undici, axios, got, ky or of your
   * own with such a field fits.
   */
  http: <Code extends string>(http: { status: OneOrMore<HttpStatus> }, code: Code) => when({ http: http.status }, code),
  /**
   * Matches a time limit: an error named `TimeoutError` (as `AbortSignal.timeout()` makes it), a `code` that ends with
   * `TIMEDOUT` or `_TIMEOUT`, `timedOut: true`, and the time limits of an attempt or a stage.
   */
  timeout: <Code extends string>(code: Code) => when({ timeout: true }, code),
  /**
   * Matches the `code` of an error if it is in capital letters and digits: `ENOSPC` and `ECONNREFUSED` of Node,
   * `UND_ERR_SOCKET` of undici, `40001` of PostgreSQL, `ER_DUP_ENTRY` of MySQL, `P2002` of Prisma.
   */
  errno: <Code extends string>(errno: OneOrMore<string>, code: Code) => when({ errno }, code),
  /**
   * Matches the exit status of a program: `exitCode`, or `code` and `status` of an error that also has `signal`, `stderr` or `killed`, as
   * child_process, execa and `runProgram` throw it. A program killed by signal n also has the exit status 128 + n.
   */
  exit: <Code extends string>(exit: OneOrMore<number> | 'nonzero', code: Code) => when({ exit }, code),
  /** Matches the signal that killed a program: `signal: 'SIGKILL'`, or the exit status 128 + n that a shell reports. */
  signal: <Code extends string>(signal: OneOrMore<string>, code: Code) => when({ signal }, code),
  /** Matches an error code of S3 or another cloud service, such as `NoSuchKey` and `SlowDown`: `Code` or `name` of an AWS SDK error, or `code` in that form. */
  s3: <Code extends string>(s3: OneOrMore<string>, code: Code) => when({ s3 }, code),
  /** Matches the phase in which the error was thrown: `acquire` is `dispatch`, `run` is `execution`, `verify` is `verification`. */
  phase: <Code extends string>(phase: Phase, code: Code) => when({ phase }, code),
  /** Matches the field `subject` of an error: a word by which your own code says what the failure is about, such as `'input'`. */
  subject: <Code extends string>(subject: OneOrMore<string>, code: Code) => when({ subject }, code),
  /** Matches the `name` of an error, or the name of its class if `name` was not set: `rule.name('ZodError', 'ANSWER_INVALID')`. */
  name: <Code extends string>(name: OneOrMore<string>, code: Code) => when({ name }, code),
  /** Matches the message of an error, or the end of the stderr of a program. Must come after the other rules, because wording changes. */
  message: <Code extends string>(message: RegExp, code: Code) => when({ message }, code),
}

function when<Code extends string>(conditions: Conditions, code: Code): Rule<Code> {
  const { phase, errno, exit, signal, http, s3, subject, timeout, name, message } = conditions
  const match: Match = {
    ...(phase !== undefined && { phase }),
    ...(errno !== undefined && { errno: list(errno) }),
    ...(exit !== undefined && { exit: exit === 'nonzero' ? exit : list(exit) }),
    ...(signal !== undefined && { signal: list(signal) }),
    ...(http !== undefined && { http: list(http) }),
    ...(s3 !== undefined && { s3: list(s3) }),
    ...(subject !== undefined && { subject: list(subject) }),
    ...(timeout !== undefined && { timeout }),
    ...(name !== undefined && { name: list(name) }),
    // A 'g' or 'y' expression remembers where it stopped: the same failure would match only every other time.
    ...(message !== undefined && { message: { source: message.source, flags: message.flags.replace(/[gy]/g, '') } }),
  }
  return { match, code, text: inWords(match) }
}

function list<T extends string | number>(value: OneOrMore<T>): readonly T[] {
  return typeof value === 'object' ? [...value] : [value]
}

function inWords(match: Match): string {
  const words: string[] = []
  if (match.phase !== undefined) words.push(`phase ${match.phase}`)
  if (match.timeout) words.push('timed out')
  if (match.http) words.push(`HTTP status ${either(match.http)}`)
  if (match.errno) words.push(`errno ${either(match.errno)}`)
  if (match.exit) words.push(match.exit === 'nonzero' ? 'exit status not 0' : `exit status ${either(match.exit)}`)
  if (match.signal) words.push(`killed by ${either(match.signal)}`)
  if (match.s3) words.push(`S3 code ${either(match.s3)}`)
  if (match.subject) words.push(`subject ${either(match.subject)}`)
  if (match.name) words.push(`error name ${either(match.name)}`)
  if (match.message) words.push(`text matches /${match.message.source}/${match.message.flags}`)
  return words.join(' and ')
}

function either(values: readonly (string | number)[]): string {
  return values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`
}

// A shell, and everything that reports like one, says 128 + n for a process killed by signal n; Node says the signal
// and no exit status. Which of the two we see is an accident of how the program was started, so both mean the same.
const SIGNAL_NUMBERS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGSYS: 31,
}

function exitStatusOf(facts: Facts): number | null {
  if (facts.exitCode !== null || facts.signal === null) return facts.exitCode
  return 128 + (SIGNAL_NUMBERS[facts.signal] ?? 0)
}

function matches(match: Match, facts: Facts): boolean {
  if (match.phase !== undefined && match.phase !== facts.phase) return false
  if (match.timeout && !facts.isTimeout) return false
  if (match.errno && !has(match.errno, facts.errno)) return false
  if (match.s3 && !has(match.s3, facts.s3Code)) return false
  if (match.subject && !has(match.subject, facts.subject)) return false
  if (match.name && !has(match.name, facts.name)) return false
  if (match.http && !match.http.some((status) => isStatus(status, facts.httpStatus))) return false
  if (match.exit && !isExit(match.exit, exitStatusOf(facts))) return false
  if (match.signal && !match.signal.some((signal) => isSignal(signal, facts))) return false
  if (match.message && !textMatches(match.message, facts)) return false
  return true
}

function has(wanted: readonly string[], found: string | null): boolean {
  return found !== null && wanted.includes(found)
}

function isStatus(wanted: HttpStatus, found: number | null): boolean {
  if (typeof wanted === 'number' || found === null) return wanted === found
  return Math.floor(found / 100) === Number(wanted.charAt(0))
}

function isExit(wanted: readonly number[] | 'nonzero', found: number | null): boolean {
  if (found === null) return false
  return wanted === 'nonzero' ? found !== 0 : wanted.includes(found)
}

function isSignal(wanted: string, facts: Facts): boolean {
  if (facts.signal !== null) return facts.signal === wanted
  return facts.exitCode !== null && facts.exitCode === 128 + (SIGNAL_NUMBERS[wanted] ?? Number.NaN)
}

const compiled = new WeakMap<object, RegExp>()

function textMatches(message: { source: string; flags: string }, facts: Facts): boolean {
  let expression = compiled.get(message)
  if (expression === undefined) {
    expression = new RegExp(message.source, message.flags)
    compiled.set(message, expression)
  }
  return expression.test(facts.message) || (facts.stderrTail !== null && expression.test(facts.stderrTail))
}

export const NO_RULE = 'no rule matched'

export interface Classification {
  code: string
  /** Why this code, in words. */
  rule: string
}

/** What happens to a handler in a thread or process of its own, by the name of the error. */
const ENGINE_ERRORS: Readonly<Record<string, Classification>> = {
  MemoryLimit: { code: 'MEMORY_LIMIT', rule: 'stopped at the memory limit' },
  HandlerCrashed: { code: 'HANDLER_CRASHED', rule: 'the thread or process of the handler ended' },
  HandlerNotLoaded: { code: 'HANDLER_NOT_LOADED', rule: 'the module of the handler cannot be loaded' },
}

export function classify(facts: Facts, rules: readonly Rule[], codes: Taxonomy): Classification {
  if (facts.code !== null) {
    if (Object.hasOwn(codes, facts.code)) return { code: facts.code, rule: 'declared by the handler' }
    return { code: 'CODE_UNDECLARED', rule: `the handler declared ${facts.code}, which its taxonomy does not have` }
  }
  for (const { match, code, text } of rules) {
    if (matches(match, facts)) return { code, rule: text }
  }
  if (facts.engineLimit === 'total') return { code: 'TOTAL_TIMEOUT', rule: 'stopped at the total time limit' }
  if (facts.engineLimit === 'attempt') return { code: 'TIMEOUT', rule: 'stopped at the attempt time limit' }
  if (facts.engineLimit === 'stage') return { code: 'TIMEOUT', rule: 'stopped at the time limit of a stage' }
  const ofEngine = Object.hasOwn(ENGINE_ERRORS, facts.name) ? ENGINE_ERRORS[facts.name] : undefined
  if (ofEngine !== undefined) return ofEngine
  if (facts.phase === 'verification') return { code: 'VERIFICATION_FAILED', rule: 'thrown while verifying' }
  return { code: 'UNKNOWN', rule: NO_RULE }
}

/** Names every rule that could not work, when the job type is declared rather than when the first failure arrives. */
export function checkRules(rules: readonly Rule[], taxonomy: Taxonomy): void {
  const problems: string[] = []
  const seen = new Map<string, number>()
  const lastStructured = rules.findLastIndex(({ match }) => !isTextOnly(match))
  rules.forEach(({ match, code, text }, index) => {
    const complain = (problem: string) => problems.push(`rule ${index + 1} (${text || 'empty'} -> ${code}): ${problem}`)
    if (!Object.hasOwn(taxonomy, code)) complain(`the taxonomy has no code ${code}`)
    for (const problem of problemsOf(match)) complain(problem)
    if (isTextOnly(match) && index < lastStructured) {
      complain(
        'text patterns come last: wording changes between versions and means less than a status or an exit code; ' +
          'move it below the structured rules, or narrow it as in rule.when({ exit, message })',
      )
    }
    const same = JSON.stringify(match)
    const earlier = seen.get(same)
    if (earlier !== undefined) complain(`can never fire: rule ${earlier + 1} matches the same`)
    else seen.set(same, index)
  })
  if (problems.length > 0) {
    throw new RedressError('RULE_INVALID', `the classification rules are not valid: ${problems.join('; ')}`, {
      problems,
    })
  }
}

function isTextOnly(match: Match): boolean {
  return match.message !== undefined && Object.keys(match).length === 1
}

function problemsOf(match: Match): string[] {
  const problems: string[] = []
  const fields = Object.entries(match)
  if (fields.length === 0) problems.push('has no condition, so it would match everything')
  for (const [field, wanted] of fields) {
    if (Array.isArray(wanted) && wanted.length === 0) problems.push(`${field} names nothing, so it would match nothing`)
  }
  if (match.phase !== undefined && !PHASES.includes(match.phase))
    problems.push(`phase must be one of ${PHASES.join(', ')}`)
  for (const status of match.http ?? []) {
    const isClass = typeof status === 'string' && /^[1-5]xx$/.test(status)
    const isCode = typeof status === 'number' && Number.isInteger(status) && status >= 100 && status <= 599
    if (!isClass && !isCode) problems.push(`HTTP status ${status} is not between 100 and 599`)
  }
  for (const exit of Array.isArray(match.exit) ? match.exit : []) {
    if (!Number.isInteger(exit) || exit < 0) problems.push(`exit status ${exit} is not a whole number from 0`)
  }
  return problems
}
