import type { OutputOf } from '../../../../src/operations/table.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'

type Group = OutputOf<'failures.list'>['groups'][number]

/** What a person may say about a group of failures. */
export function GroupActs({
  group,
  isSmall = false,
}: {
  group: Pick<Group, 'fingerprint' | 'state' | 'code'>
  isSmall?: boolean
}) {
  const { fingerprint, state, code } = group
  const input = { fingerprint }
  const isOpen = state === 'open' || state === 'regressed'
  return (
    <span class="buttons">
      {isOpen && (
        <ActButton
          isSmall={isSmall}
          act={{
            name: 'failures.resolve',
            input,
            title: `${code} is fixed`,
            verb: 'Resolve',
            explain: <p>Say what was fixed. If it fails again, the group becomes regressed.</p>,
          }}
        >
          Resolve
        </ActButton>
      )}
      {isOpen && (
        <ActButton
          isSmall={isSmall}
          act={{
            name: 'failures.snooze',
            input,
            title: `Put ${code} aside for a time`,
            verb: 'Snooze',
            explain: <p>It comes back when the time is over, or when so many more have failed.</p>,
            fields: [
              { name: 'for', label: 'For how long', kind: 'text', initial: '8h', help: `'30m', '8h', '7d'` },
              { name: 'more', label: 'Or until so many more have failed', kind: 'number' },
            ],
          }}
        >
          Snooze
        </ActButton>
      )}
      {!isOpen && (
        <ActButton isSmall={isSmall} act={{ name: 'failures.reopen', input, title: `Reopen ${code}`, verb: 'Reopen' }}>
          Reopen
        </ActButton>
      )}
    </span>
  )
}
