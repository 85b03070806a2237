import { useLayoutEffect, useState } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { useQuery } from '../../api/query.ts'
import { CopyButton } from '../../parts/Copy.tsx'
import { FaultMark, StatusMark } from '../../parts/Marks.tsx'
import { Page } from '../../parts/Page.tsx'
import { Shown } from '../../parts/States.tsx'
import { Table } from '../../parts/Table.tsx'
import { cliOf } from '../../words/cli.ts'
import { jobsHref, policyHref } from '../../words/links.ts'
import { duration } from '../../words/time.ts'

type Preview = OutputOf<'policy.preview'>

/** A program that starts may declare another policy, and no event tells of that. */
const DECLARED = { follows: () => false, everyMs: 15_000 }

export default function Policy() {
  const { params } = useRoute()
  const type = params.type ?? ''
  const shown = useQuery('policy.show', { type }, DECLARED)
  return (
    <Page
      title={type}
      aside={
        <>
          <a class="button plain" href={jobsHref({ type, status: 'failed' })}>
            Its failed jobs
          </a>
          <CopyButton text={cliOf('policy.show', { type })} what="this as a command">
            Copy as CLI
          </CopyButton>
        </>
      }
    >
      <Shown query={shown}>
        {({ fields }) => (
          <>
            <Timeline type={type} />
            <h2>What its author said</h2>
            <Fields label={`Policy of ${type}`} fields={fields.filter(({ isDefault }) => !isDefault)} />
            <details>
              <summary>What nobody said, and so takes its default</summary>
              <Fields label={`Defaults of ${type}`} fields={fields.filter(({ isDefault }) => isDefault)} />
            </details>
          </>
        )}
      </Shown>
    </Page>
  )
}

function Fields({ label, fields }: { label: string; fields: OutputOf<'policy.show'>['fields'] }) {
  if (fields.length === 0) return <p class="quiet">Nothing: every field has its default, which is the safest.</p>
  return (
    <Table
      label={label}
      rows={fields}
      keyOf={({ name }) => name}
      columns={[
        { head: 'Field', isTitle: true, cell: ({ name }) => <code>{name}</code> },
        { head: 'Value', cell: ({ value }) => <span class="said">{value}</span> },
      ]}
    />
  )
}

/** What the policy would do, tried out: the same that `policy simulate` says. */
function Timeline({ type }: { type: string }) {
  const { query, route } = useLocation()
  const failures = query.failures
  const preview = useQuery('policy.preview', { type, ...(failures && { failures }) }, DECLARED)
  const tried = failures ?? preview.data?.outcomes.join(',') ?? ''
  // null until the person types. An answer that arrives later must not overwrite what was typed.
  const [typed, setTyped] = useState<string | null>(null)
  // Before the paint, or it would drop what is typed right after the new page is seen.
  useLayoutEffect(() => setTyped(null), [type, failures])
  const text = typed ?? tried
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">What it would do</h2>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault()
          route(`${policyHref(type)}?${new URLSearchParams({ failures: text })}`)
        }}
      >
        <label>
          If attempts end like this{' '}
          <input
            name="failures"
            size={40}
            list="outcomes"
            value={text}
            onInput={({ currentTarget: { value } }) => setTyped(value)}
            placeholder="GW_5XX,crash,ok"
          />
        </label>
        <datalist id="outcomes">
          {[...(preview.data?.codes.map(({ code }) => code) ?? []), 'ok', 'crash', 'unknown'].map((outcome) => (
            <option key={outcome} value={outcome} />
          ))}
        </datalist>
        <button type="submit" class="plain">
          Try it
        </button>
      </form>
      <Shown query={preview}>
        {(data) => (
          <>
            <Steps preview={data} />
            <Codes preview={data} />
          </>
        )}
      </Shown>
    </section>
  )
}

function Steps({ preview: { steps, type } }: { preview: Preview }) {
  return (
    <Table
      label={`What the policy of ${type} would do`}
      rows={steps}
      keyOf={({ attempt }) => String(attempt)}
      columns={[
        { head: 'Attempt', isTitle: true, cell: ({ attempt }) => `Attempt ${attempt}` },
        { head: 'After', isNumber: true, cell: ({ atMs }) => (atMs === 0 ? 'at once' : duration(atMs)) },
        { head: 'Ends with', cell: ({ outcome }) => <code>{outcome}</code> },
        { head: 'Then it is', cell: ({ status }) => <StatusMark status={status} /> },
        {
          head: 'Because',
          cell: ({ reasons, note }) => (
            <span class="said">
              {reasons?.because ?? 'it succeeded'}
              {note !== null && ` (${note})`}
            </span>
          ),
        },
        {
          head: 'Next after',
          isNumber: true,
          cell: ({ atMs, nextAtMs }) => (nextAtMs === null ? '–' : duration(nextAtMs - atMs)),
        },
      ]}
    />
  )
}

function Codes({ preview: { codes, isCodesKnown } }: { preview: Preview }) {
  if (!isCodesKnown) {
    return (
      <p class="quiet">This server does not run the program that declares the type, so it does not know its codes.</p>
    )
  }
  if (codes.length === 0) return null
  return (
    <>
      <h2>Its failure codes</h2>
      <Table
        label="Failure codes"
        rows={codes}
        keyOf={({ code }) => code}
        columns={[
          { head: 'Code', isTitle: true, cell: ({ code }) => <code>{code}</code> },
          { head: 'At fault', cell: ({ fault }) => <FaultMark fault={fault} /> },
          { head: 'Retry', cell: ({ retry }) => retry },
          { head: 'What people are told', cell: ({ message }) => <span class="said">{message}</span> },
        ]}
      />
    </>
  )
}
