import { BULLMQ } from './bullmq.ts'
import type { Case } from './cases.ts'
import { GRAPHILE } from './graphile.ts'
import { OWN } from './own.ts'
import { PG_BOSS } from './pg-boss.ts'
import { PLAINJOB } from './plainjob.ts'
import type { System } from './system.ts'

export const SYSTEMS: readonly System[] = [...OWN, ...GRAPHILE, ...PG_BOSS, ...BULLMQ, ...PLAINJOB]

/** The systems that a case lists, also those that have no such mode. Redis stands beside PostgreSQL: both are servers. */
export const systemsOf = ({ store, kind, only }: Case): readonly System[] =>
  SYSTEMS.filter(
    ({ id, backend, kinds }) =>
      (backend === 'redis' ? 'postgres' : backend) === store &&
      kinds[kind] !== undefined &&
      (only === undefined || only.includes(id)),
  )
