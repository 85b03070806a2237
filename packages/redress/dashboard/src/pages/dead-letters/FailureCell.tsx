import type { Fault } from '../../../../src/core/failure/failure.ts'
import { FaultMark } from '../../parts/Marks.tsx'
import { groupHref } from '../../words/links.ts'

interface Props {
  fault: Fault
  code: string
  message: string
  fingerprint: string
}

/** Whose fault, which code, and the words for it; the code leads to all that failed alike. */
export function FailureCell({ fault, code, message, fingerprint }: Props) {
  return (
    <span>
      <FaultMark fault={fault} />{' '}
      <a href={groupHref(fingerprint)} title="All that failed in the same way">
        <code>{code}</code>
      </a>
      <br />
      <span class="said">{message}</span>
    </span>
  )
}
