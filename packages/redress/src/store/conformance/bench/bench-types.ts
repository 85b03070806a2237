import { policy } from '../../../core/policy/policy.ts'
import type { TypeDeclaration } from '../../contract/store.ts'

/** Everything may happen to it. */
const permissive = policy({
  retry: { max: 3, unknown: 'transient' },
  manualRetry: 'in-place',
  orphan: 'requeue',
})

/** Nothing may go back. */
const forward = policy({ forwardOnly: true })

/** The job types a bench begins with. */
export const TYPES: readonly TypeDeclaration[] = [
  { name: 'plain', queue: 'default', policy: permissive },
  { name: 'other', queue: 'side', policy: permissive },
  { name: 'third', queue: 'side', policy: permissive },
  { name: 'forward', queue: 'default', policy: forward },
]
