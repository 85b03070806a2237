/** What tests of job handlers, and tests of store drivers, are made of. Works with any test runner. */
export { rebuild } from '../core/job/rebuild.ts'
export { type Chance, seededChance } from '../runtime/chance.ts'
export { type Clock, VirtualClock } from '../runtime/clock.ts'
export { Bench, checkJob, conformance, type Driver, promises, type StorePromise } from '../store/conformance/index.ts'
export { STEPS as ATTEMPT_STEPS, type Step as AttemptStep } from '../worker/attempt/steps.ts'
export { type CrashOptions, type KitOptions, TestKit, testKit } from './kit.ts'
