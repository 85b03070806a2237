import type { Fault } from '../../../src/core/failure/failure.ts'
import type { GroupState } from '../../../src/core/failure/group.ts'
import type { Status } from '../../../src/core/job/states.ts'
import { FAULT_WORDS } from '../words/faults.ts'
import { Icon, type IconName } from './Icon.tsx'

/** Whose fault it is: an icon and a word, and colour only beside them. */
export function FaultMark({ fault }: { fault: Fault }) {
  return (
    <span class={`mark fault-${fault}`} title={FAULT_WORDS[fault].meaning}>
      <Icon name={fault} />
      {FAULT_WORDS[fault].word}
    </span>
  )
}

export function StatusMark({ status, isOrphaned = false }: { status: Status; isOrphaned?: boolean }) {
  if (isOrphaned) {
    return (
      <span class="mark status-orphan" title="Its worker is lost, and its progress is unknown.">
        <Icon name="orphan" />
        orphaned
      </span>
    )
  }
  return (
    <span class={`mark status-${status}`}>
      <Icon name={status} />
      {status}
    </span>
  )
}

export function GroupStateMark({ state }: { state: GroupState }) {
  return (
    <span class={`mark group-${state}`}>
      <Icon name={state} />
      {state}
    </span>
  )
}

type Tone = 'good' | 'bad' | 'warn' | 'plain'

/** A word that stands for a state of anything else: 'PARTIAL', 'half-open', 'paused'. */
export function Badge({
  tone,
  icon,
  children,
  title,
}: {
  tone: Tone
  icon?: IconName
  children: string
  title?: string
}) {
  return (
    <span class={`mark tone-${tone}`} title={title}>
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </span>
  )
}
