import type { Policy } from '../../../../src/core/policy/policy.ts'
import { useQuery } from '../../api/query.ts'
import { Page } from '../../parts/Page.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { limitsOf } from '../../words/limits.ts'
import { policyHref } from '../../words/links.ts'

const ORPHANS = { report: 'a person decides', requeue: 'another worker takes it', fail: 'it fails' } as const
const BY_HAND = { 'in-place': 'in place', 'new-job': 'as a new job', off: 'never' } as const

const triesOf = ({ retry: { max } }: Policy): string => (max === 1 ? 'once, never again' : `up to ${max} times`)

export default function Policies() {
  const types = useQuery('types.list', {}, { follows: () => false, everyMs: 15_000 })
  return (
    <Page title="Policies">
      <p class="quiet">What happens to a failure of each job type. A policy is part of the program that declares it.</p>
      <Shown query={types}>
        {(found) =>
          found.types.length === 0 ? (
            <Empty title="No program has declared a job type yet." />
          ) : (
            <Table
              label="Policies by job type"
              rows={found.types}
              keyOf={({ name }) => name}
              columns={[
                {
                  head: 'Type',
                  isTitle: true,
                  cell: ({ name }) => (
                    <a class="name" href={policyHref(name)}>
                      {name}
                    </a>
                  ),
                },
                { head: 'Queue', cell: ({ queue }) => <span class="name">{queue}</span> },
                { head: 'Tried', cell: ({ policy }) => triesOf(policy) },
                { head: 'Retried by hand', cell: ({ policy }) => BY_HAND[policy.manualRetry.mode] },
                { head: 'A lost worker', cell: ({ policy }) => ORPHANS[policy.orphan.action] },
                { head: 'Dead letters', cell: ({ policy }) => policy.deadLetter },
                { head: 'Breaker', cell: ({ policy }) => policy.breaker?.guards ?? '–' },
                { head: 'Limits', cell: ({ policy }) => limitsOf(policy) },
                { head: 'Locked', cell: ({ policy }) => (policy.locked ? 'yes' : 'no') },
                { head: 'Declared', cell: ({ registeredAt }) => <Ago at={registeredAt} /> },
              ]}
            />
          )
        }
      </Shown>
    </Page>
  )
}
