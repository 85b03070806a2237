import type { ErrorAnswer } from '../../../src/http/routes/error-answer.ts'
import { CATALOG, type OperationName } from '../../../src/operations/catalog.ts'
import { requestOf } from '../../../src/operations/request-of.ts'
import type { InputOf, OutputOf } from '../../../src/operations/table.ts'
import { hearTime } from '../words/time.ts'
import { signedOut } from './session.ts'

/** A refusal, in the words of the server; or what kept us from reaching it. */
export class Refused extends Error {
  readonly code: string
  /** What to do about it, where somebody knows. */
  readonly action: string | null
  constructor(code: string, message: string, action: string | null = null) {
    super(message)
    this.code = code
    this.action = action
  }
}

const ANSWER_MS_MAX = 30_000

/** Asks for an operation of the table by its name: the route is the table's. */
export async function perform<Name extends OperationName>(
  name: Name,
  input: InputOf<Name>,
  signal?: AbortSignal,
): Promise<OutputOf<Name>> {
  const { method, path, body } = requestOf(name, input)
  const late = AbortSignal.timeout(ANSWER_MS_MAX)
  const askedAtMs = Date.now()
  let response: Response
  try {
    response = await fetch(path, {
      method,
      headers: { accept: 'application/json', ...(body !== null && { 'content-type': 'application/json' }) },
      ...(body !== null && { body }),
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    const isDryRun = (input as { dryRun?: unknown }).dryRun === true
    const perhaps = CATALOG[name].mutates && !isDryRun ? ' It may have been done: check before you repeat it.' : ''
    throw new Refused('SERVER_UNREACHABLE', `The server cannot be reached.${perhaps}`, 'Check that it runs.')
  }
  hearTime(response.headers.get('date'), askedAtMs)
  return (await answerOf(response)) as OutputOf<Name>
}

export async function answerOf(response: Response): Promise<unknown> {
  const answer: unknown = await response.json().catch(() => null)
  if (response.ok && answer !== null) return answer
  const error = (answer as { error?: Partial<ErrorAnswer['error']> } | null)?.error
  if (response.status === 401) signedOut.value = true
  throw new Refused(
    error?.code ?? 'SERVER_FAILED',
    error?.message !== undefined
      ? withProblems(error.message, error.problems)
      : `The server answered ${response.status}, and not as it should.`,
    error?.action ?? null,
  )
}

/** What is wrong in particular, where the sentence does not say it itself: 'to: must be text'. */
const withProblems = (message: string, problems: readonly string[] = []): string =>
  [message, problems.filter((problem) => !message.includes(problem)).join('; ')].filter(Boolean).join(' ')
