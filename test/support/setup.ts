import fc from 'fast-check'
import { setDefaultLog } from '../../packages/redress/src/app/default-log.ts'
import { silentLog } from '../../packages/redress/src/runtime/log.ts'
import { seedOf } from './seed.ts'

// Every random test of a build draws the same cases; REDRESS_SEED=random looks further.
fc.configureGlobal({ seed: seedOf() })

// Apps of tests are many, and fail on purpose: what they log is read where a test gives them a log.
setDefaultLog(silentLog)
