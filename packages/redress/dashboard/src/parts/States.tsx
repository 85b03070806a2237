import type { ComponentChildren } from 'preact'
import type { OperationName } from '../../../src/operations/catalog.ts'
import type { OutputOf } from '../../../src/operations/table.ts'
import type { Refused } from '../api/perform.ts'
import type { Query } from '../api/query.ts'

/** What went wrong, in the words of the server, and what to do. */
export function Problem({ problem }: { problem: Refused }) {
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>{problem.message}</strong>
      </p>
      {problem.action !== null && <p>{problem.action}</p>}
      <p class="quiet">{problem.code}</p>
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>
        <strong>{title}</strong>
      </p>
      {children}
    </div>
  )
}

interface ShownProps<Name extends OperationName> {
  query: Query<Name>
  children: (data: OutputOf<Name>) => ComponentChildren
}

/** What a query found. What was found before stays while it is read anew, or cannot be. */
export function Shown<Name extends OperationName>({ query, children }: ShownProps<Name>) {
  const { data, problem } = query
  return (
    <>
      {problem !== null && <Problem problem={problem} />}
      {data === null ? problem === null && <Loading /> : children(data)}
    </>
  )
}

/** Appears only after a moment: what comes at once must not flicker. */
export const Loading = () => (
  <p class="loading" role="status">
    Reading …
  </p>
)
