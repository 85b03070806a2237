import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** The cost of some work. Rates depend on what else the machine does; processor time hardly does. */
export interface Cost {
  ms: number
  /** Of this process, with all its threads. */
  nodeUs: number
  /** Of the processes of the database server; null where they cannot be read, or where there is no server. */
  serverUs: number | null
}

export interface Meter {
  /** Adds the cost of this work to what was measured before. */
  measure<T>(work: () => Promise<T>): Promise<T>
  cost(): Cost
}

/** `serverPid`: the first process of the server, the parent of those that serve connections. */
export function openMeter(serverPid: number | null, around = { before: async () => {}, after: async () => {} }): Meter {
  const total: Cost = { ms: 0, nodeUs: 0, serverUs: 0 }
  return {
    async measure(work) {
      const serverBegan = serverTimeUs(serverPid)
      await around.before()
      const [nodeBegan, beganMs] = [process.cpuUsage(), performance.now()]
      const answer = await work()
      total.ms += performance.now() - beganMs
      const { user, system } = process.cpuUsage(nodeBegan)
      total.nodeUs += user + system
      await around.after()
      const serverEnded = serverTimeUs(serverPid)
      total.serverUs =
        total.serverUs === null || serverBegan === null || serverEnded === null
          ? null
          : total.serverUs + serverEnded - serverBegan
      return answer
    },
    cost: () => ({ ...total }),
  }
}

/** Null without /proc, which only Linux has. */
function serverTimeUs(serverPid: number | null): number | null {
  const first = serverPid === null ? null : statOf(serverPid)
  if (first === null) return null
  let ticks = first.ownTicks + first.endedChildrenTicks
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null
    if (stat?.parent === serverPid) ticks += stat.ownTicks
  }
  return ticks * tickUs()
}

interface Stat {
  parent: number
  ownTicks: number
  endedChildrenTicks: number
}

/** Fields 4 and 14 to 17 of /proc/PID/stat, counted after the name, which may contain spaces. Null: it has ended. */
function statOf(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const at = (field: number): number => fields[field - 3] as number
    return { parent: at(4), ownTicks: at(14) + at(15), endedChildrenTicks: at(16) + at(17) }
  } catch {
    return null
  }
}

let tick: number | null = null
function tickUs(): number {
  tick ??= 1_000_000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
  return tick
}
