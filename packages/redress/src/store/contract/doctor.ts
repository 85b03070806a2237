/** What a doctor looks at. Only facts: what they mean is judged in `packages/redress/src/operations/doctor/doctor.ts`. */
export interface DoctorStore {
  /** Changes nothing. With `isDeep`, also what takes long. */
  facts(params: { isDeep: boolean }): Promise<StoreFacts>
  stop(): Promise<void>
}

export interface StoreFacts {
  /** For people, without a password. */
  place: string
  base: SqliteFacts | PostgresFacts
  /** null where there is no store, or none of a version that we can read. */
  jobs: JobFacts | null
}

/** The version of the tables: of this store (0 where there is none yet), and the one that this program knows. */
export interface VersionFacts {
  found: number
  known: number
}

export interface SqliteFacts {
  kind: 'sqlite'
  sqliteVersion: string
  sqliteVersionMin: string
  /** false for the database of another program. */
  isOurs: boolean
  version: VersionFacts
  journalMode: string
  fileBytes: number
  walBytes: number
  /** Pages of the log that are not in the file yet; null where nobody has the file open. */
  walPagesPending: number | null
  diskFreeBytes: number
  /** The name of a file system that other machines share; null for one of this machine. */
  networkFileSystem: string | null
  mayWriteFile: boolean
  mayWriteFolder: boolean
  /** Also true if the lock file does not exist yet. */
  mayLock: boolean
  /** The combined permissions of the file and its companions (-wal, -shm): 0o600 if only the owner can read them. */
  mode: number
  /** What SQLite's own check found wrong; null when it was not asked. */
  damage: string[] | null
}

export interface PostgresFacts {
  kind: 'postgres'
  serverVersion: number
  isStandby: boolean
  settings: { synchronousCommit: string; fsync: string; fullPageWrites: string; autovacuum: string }
  schema: string
  /** false where no store was made yet. */
  hasSchema: boolean
  version: VersionFacts
  user: string
  /** In words: 'UPDATE on jobs'. */
  rightsMissing: string[]
  /** Whether we are shown what other users' sessions hold. */
  seesOthers: boolean
  holders: HorizonHolder[]
  tables: TableHealth[]
  /** null where there is no store, or where it may not be looked at. */
  partitions: PartitionFacts | null
  connections: { max: number; used: number }
  tls: TlsFacts
  /** The server's clock minus ours. */
  clockAheadMs: number
  /** How long a notification took to come back; or why none came. */
  notified: { ms: number } | { problem: string }
}

/** How the store is connected to the server. */
export interface TlsFacts {
  /** The mode from the address or the environment: 'prefer'. */
  mode: string
  /** Which parts of the server's certificate are checked. */
  checks: 'nothing' | 'authority' | 'authority and name'
  isEncrypted: boolean
  /** The server is on this machine. */
  isLocal: boolean
}

/** Whoever keeps dead rows from being removed, or the log from being let go. */
export interface HorizonHolder {
  kind: 'session' | 'prepared' | 'slot'
  /** What its end is asked for with: a process id, a transaction's name, a slot's name. */
  name: string
  /** 'psql of ann on 10.0.0.7, idle in transaction'. */
  what: string
  /** null where the server does not know. */
  forMs: number | null
  /** How many transactions there have been since; null where it holds no rows. */
  transactions: number | null
  /** Of the log; 0 where it holds none. */
  walBytes: number
  isActive: boolean
}

/** The history has a table for each day, made ahead of time. */
export interface PartitionFacts {
  /** Missing daily tables of today and tomorrow: 'events 2026-11-30'. */
  missing: string[]
  /** The tables of days without a table of their own that hold anything. */
  filledRests: string[]
  /**
   * Sessions that hold a lock on the history, oldest first. Until they end, no daily table can be created or dropped.
   */
  readers: HistoryReader[]
}

export interface HistoryReader {
  pid: number
  /** 'psql of ann on 10.0.0.7, idle in transaction'. */
  what: string
  /** The age of its transaction; null if the server does not show it. */
  forMs: number | null
  /** The start of its statement. */
  query: string
  /** The first of the tables. */
  table: string
}

export interface TableHealth {
  table: string
  liveRows: number
  deadRows: number
  /** null for never, as far as the server remembers. */
  vacuumedMsAgo: number | null
}

export interface OrphanFact {
  id: string
  type: string
  worker: string
  /** When its lease ran out. */
  silentSinceMs: number
}

export interface JobFacts {
  nowMs: number
  types: { type: string; queue: string; ready: number; oldestReadyAtMs: number | null }[]
  workers: { id: string; types: string[]; seenAtMs: number; stoppedAtMs: number | null }[]
  orphans: { count: number; oldestAtMs: number | null }
  /**
   * All orphans that wait for a person: reported ones, and those whose lease expired under a policy that reports
   * orphans.
   */
  orphaned: OrphanFact[]
  /** Leases that ran out and that nobody took back. */
  expired: { count: number; oldestAtMs: number | null }
  paused: { queue: string; by: string; reason: string; atMs: number; untilMs: number | null }[]
  breakers: { name: string; status: string; reason: string; sinceMs: number; forcedBy: string | null }[]
  /** Notices that were not handed to these channels yet. */
  waits: { channel: string; notices: number; oldestAtMs: number }[]
}
