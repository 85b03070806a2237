import { openMeter } from '../processor-time.ts'
import { CASES } from './cases.ts'
import { openProfile } from './profiler.ts'
import { systemsOf } from './systems.ts'

/** One case of one system, in a process of its own. Answers its parent with what it cost. */
export interface ChildOrder {
  caseId: string
  systemId: string
  address: string
  jobs: number
  serverPid: number | null
  /** Where a processor profile of what is measured is written. */
  profile: string | null
}

const order = JSON.parse(process.argv[2] ?? '') as ChildOrder
const given = CASES.find(({ id }) => id === order.caseId)
const system = given && systemsOf(given).find(({ id }) => id === order.systemId)
if (given === undefined || system === undefined) throw new Error(`No ${order.systemId} in ${order.caseId}.`)

const meter = openMeter(order.serverPid, order.profile === null ? undefined : openProfile(order.profile, order.address))
const latencies = await system.run({ given, address: order.address, jobs: order.jobs, meter })
process.send?.({ cost: meter.cost(), latencies: latencies ?? null }, () => process.exit(0))
