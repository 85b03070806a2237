import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type ActField, type PendingAct, pendingAct } from '../../api/act.ts'
import { changedSomething, onChanges } from '../../api/live.ts'
import { perform, Refused } from '../../api/perform.ts'
import { cliOf } from '../../words/cli.ts'
import { announce } from '../announce.ts'
import { CopyButton } from '../Copy.tsx'
import { Problem } from '../States.tsx'

interface Done {
  isDone: boolean
  did: string
  items?: readonly { id: string; isDone: boolean; did: string }[]
}

const PREVIEW_AFTER_MS = 250
const ASK_AGAIN_MS = 2_000
/** A preview is asked for before a reason was given, and nothing of it is kept. */
const PREVIEW_REASON = '(preview)'

export function ActDialog() {
  const act = pendingAct.value
  return act === null ? null : <Dialog act={act} />
}

function Dialog({ act }: { act: PendingAct }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries((act.fields ?? []).map(({ name, initial = '' }) => [name, initial])),
  )
  const [reason, setReason] = useState('')
  const [preview, setPreview] = useState<string | Refused | null>(null)
  const [problem, setProblem] = useState<Refused | null>(null)
  const [result, setResult] = useState<Done | null>(null)
  const [isBusy, setBusy] = useState(false)
  const wantsReason = act.wantsReason !== false

  // Before the paint: what is typed right after the key that opens the dialog belongs to the dialog.
  useLayoutEffect(() => dialog.current?.showModal(), [])
  const read = readFields(act, values)

  const key = JSON.stringify(values)
  // Before the paint: the preview of other values must never stand beside the values that will be sent.
  useLayoutEffect(() => setPreview(null), [key])
  const turn = useTurns(act, {
    isOver: isBusy || result !== null,
    isUnreached: preview instanceof Refused && preview.code === 'SERVER_UNREACHABLE',
  })
  useEffect(() => {
    if (read instanceof Refused) return setPreview(read)
    const stop = new AbortController()
    const timer = setTimeout(async () => {
      const input = { ...read, ...(wantsReason && { reason: PREVIEW_REASON }), dryRun: true }
      try {
        const { did } = (await perform(act.name, input as never, stop.signal)) as Done
        setPreview(did.replace(/^Nothing was done\. /, ''))
      } catch (error) {
        if (!stop.signal.aborted) setPreview(asRefused(error))
      }
    }, PREVIEW_AFTER_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [act, key, turn])

  // The browser gives the focus back to where it was only if the dialog is closed before it is gone.
  const close = (): void => dialog.current?.close()
  /** Whoever closed it while it was being done has nothing else to read it from. */
  const isGone = (): boolean => dialog.current?.open !== true
  const run = async (): Promise<void> => {
    if (read instanceof Refused) return setProblem(read)
    setBusy(true)
    setProblem(null)
    try {
      const answer = (await perform(act.name, { ...read, ...(wantsReason && { reason }) } as never)) as Done
      changedSomething()
      act.onDone?.(answer)
      if (!isGone() && answer.items?.some(({ isDone }) => !isDone)) return setResult(answer)
      announce(answer.did)
      close()
    } catch (error) {
      const refused = asRefused(error)
      if (isGone()) announce(`${act.title}: ${refused.message}`, 'bad')
      else setProblem(refused)
    } finally {
      setBusy(false)
    }
  }

  const input = read instanceof Refused ? act.input : read
  return (
    <dialog ref={dialog} class="act" aria-labelledby="act-title" onClose={() => (pendingAct.value = null)}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void run()
        }}
      >
        <h2 id="act-title">{act.title}</h2>
        {result === null ? (
          <>
            {act.explain}
            {act.fields?.map((field) => (
              <FieldInput
                key={field.name}
                field={field}
                value={values[field.name] ?? ''}
                onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
              />
            ))}
            <Preview preview={preview} />
            {wantsReason && (
              <label>
                Reason
                <textarea
                  name="reason"
                  required
                  rows={2}
                  maxLength={2000}
                  value={reason}
                  onInput={(event) => setReason(event.currentTarget.value)}
                />
                <span class="help">Kept with your name in the audit trail.</span>
              </label>
            )}
            {problem !== null && <Problem problem={problem} />}
            <p class="buttons">
              <button type="submit" class={act.isDangerous ? 'danger' : undefined} disabled={isBusy}>
                {isBusy ? 'Working …' : act.verb}
              </button>
              <button type="button" class="plain" onClick={close}>
                Leave it
              </button>
              <CopyButton text={cliOf(act.name, { ...input, reason })} what="this as a command">
                Copy as CLI
              </CopyButton>
            </p>
          </>
        ) : (
          <Result result={result} onClose={close} />
        )}
      </form>
    </dialog>
  )
}

/** Counts up when what the act is about has changed under the eyes of whoever is asked; and while nobody answers. */
function useTurns({ input }: PendingAct, { isOver, isUnreached }: { isOver: boolean; isUnreached: boolean }): number {
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    if (isOver || !isUnreached) return
    const asking = setInterval(() => setTurn((before) => before + 1), ASK_AGAIN_MS)
    return () => clearInterval(asking)
  }, [isOver, isUnreached])
  useEffect(() => {
    // What the act itself changes is told by its answer.
    if (isOver) return
    const { id, name, fingerprint } = input
    const about = new Set([id, name, fingerprint].filter((one) => one !== undefined))
    return onChanges(({ subjects }) => {
      const isAbout = subjects.some((subject) => about.has(subject.slice(subject.indexOf(':') + 1)))
      if (isAbout) setTurn((before) => before + 1)
    })
  }, [input, isOver])
  return turn
}

function Preview({ preview }: { preview: string | Refused | null }) {
  if (preview instanceof Refused) {
    return (
      <div class="preview bad" role="status">
        <p>
          <strong>Not possible:</strong> {preview.message}
        </p>
        {preview.action !== null && <p>{preview.action}</p>}
      </div>
    )
  }
  return (
    <div class="preview" role="status">
      <p>{preview ?? 'Asking the server what this would do …'}</p>
    </div>
  )
}

/** Part of it was refused: each with its reason, and the rest is done. */
function Result({ result, onClose }: { result: Done; onClose: () => void }) {
  const refused = result.items?.filter(({ isDone }) => !isDone) ?? []
  return (
    <>
      <p role="status">{result.did}</p>
      <ul class="results">
        {refused.map(({ id, did }) => (
          <li key={id}>
            <code>{id}</code> {did}
          </li>
        ))}
      </ul>
      <p class="buttons">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </p>
    </>
  )
}

function FieldInput({ field, value, onChange }: { field: ActField; value: string; onChange: (value: string) => void }) {
  const { name, label, kind, help, choices, isRequired = false } = field
  const set = (event: { currentTarget: { value: string } }): void => onChange(event.currentTarget.value)
  return (
    <label htmlFor={`act-${name}`}>
      {label}
      {kind === 'choice' ? (
        <select id={`act-${name}`} name={name} value={value} onChange={set}>
          {choices?.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : kind === 'json' ? (
        <textarea
          id={`act-${name}`}
          name={name}
          class="code"
          rows={10}
          spellcheck={false}
          value={value}
          required={isRequired}
          onInput={set}
        />
      ) : (
        <input
          id={`act-${name}`}
          name={name}
          type="text"
          inputMode={kind === 'number' ? 'decimal' : 'text'}
          value={value}
          required={isRequired}
          onInput={set}
        />
      )}
      {help !== undefined && <span class="help">{help}</span>}
    </label>
  )
}

/** The input with what was filled in; what is empty is left out. */
function readFields({ input, fields = [] }: PendingAct, values: Readonly<Record<string, string>>): object | Refused {
  const read: Record<string, unknown> = { ...input }
  for (const { name, label, kind } of fields) {
    const text = (values[name] ?? '').trim()
    if (text === '') continue
    if (kind === 'number') {
      const number = Number(text)
      if (Number.isNaN(number)) return new Refused('OPTION_INVALID', `${label}: ${text} is not a number.`)
      read[name] = number
    } else if (kind === 'json') {
      try {
        read[name] = JSON.parse(text)
      } catch (error) {
        return new Refused('OPTION_INVALID', `${label}: this is not JSON: ${(error as Error).message}.`)
      }
    } else read[name] = text
  }
  return read
}

const asRefused = (error: unknown): Refused =>
  error instanceof Refused ? error : new Refused('PAGE_FAILED', String(error))
