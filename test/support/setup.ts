import fc from 'fast-check'
import { seedOf } from './seed.ts'

// Every random test of a build draws the same cases; REDRESS_SEED=random looks further.
fc.configureGlobal({ seed: seedOf() })
