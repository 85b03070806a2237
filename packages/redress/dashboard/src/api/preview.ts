import { useLayoutEffect, useState } from 'preact/hooks'
import type { OperationName } from '../../../src/operations/catalog.ts'
import type { InputOf, OutputOf } from '../../../src/operations/table.ts'
import { perform, Refused } from './perform.ts'

interface Previewed<Name extends OperationName> {
  data: OutputOf<Name> | null
  problem: Refused | null
}

const NOTHING = { data: null, problem: null }

/**
 * What an act would do, asked once for each input: to look through thousands of letters costs the server something, so
 * this does not follow what happens, as a query does. `null` asks for nothing.
 */
export function usePreview<Name extends OperationName>(name: Name, input: InputOf<Name> | null): Previewed<Name> {
  const [previewed, setPreviewed] = useState<Previewed<Name>>(NOTHING)
  const key = input === null ? null : JSON.stringify(input)
  // Before the paint: the preview of another input must never be seen beside this one.
  useLayoutEffect(() => {
    setPreviewed(NOTHING)
    if (input === null) return
    const stop = new AbortController()
    // Nothing is kept of a dry run, so its reason is nobody's.
    perform(name, { ...input, reason: '(preview)', dryRun: true }, stop.signal)
      .then((data) => setPreviewed({ data, problem: null }))
      .catch((error: unknown) => {
        if (stop.signal.aborted) return
        setPreviewed({
          data: null,
          problem: error instanceof Refused ? error : new Refused('PAGE_FAILED', String(error)),
        })
      })
    return () => stop.abort()
  }, [name, key])
  return previewed
}
