import { ask, type PendingAct } from '../../api/act.ts'
import { whyNot } from '../../api/session.ts'

interface Props {
  act: PendingAct
  children: string
  /** Why it may not be done now, whoever asks; null where it may. */
  refusal?: string | null
  isSmall?: boolean
}

/** Opens the dialog of an act; where it may not be done, the button says why. */
export function ActButton({ act, children, refusal = null, isSmall = false }: Props) {
  const why = whyNot(act.name) ?? refusal
  return (
    <button
      type="button"
      // In a row of a table it stands back behind what the row says.
      class={`${act.isDangerous ? 'danger' : isSmall ? 'plain' : ''} ${isSmall ? 'small' : ''}`}
      // Not `disabled`: what cannot be focused cannot say why.
      aria-disabled={why !== null}
      title={why ?? undefined}
      onClick={() => why === null && ask(act)}
    >
      {children}
      {why !== null && <span class="unseen">: {why}</span>}
    </button>
  )
}
