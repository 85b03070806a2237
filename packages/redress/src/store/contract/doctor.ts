/** The facts that `redress doctor` reads. `operations/doctor/doctor.ts` judges them. */
export interface DoctorStore {
  /** Changes nothing. With `isDeep`, slow checks run too. */
  facts(params: { isDeep: boolean }): Promise<StoreFacts>
  stop(): Promise<void>
}

export interface StoreFacts {
  /** For messages, without a password. */
  place: string
  base: SqliteFacts | PostgresFacts
  /** null if there is no store of a version that this program can read. */
  jobs: JobFacts | null
}

/** The version of the tables in this store (0 if there is none yet), and the version that this program knows. */
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
  /** Pages of the WAL that are not in the file yet; null if no process has the file open. */
  walPagesPending: number | null
  diskFreeBytes: number
  /** The name of a network file system; null for a local one. */
  networkFileSystem: string | null
  mayWriteFile: boolean
  mayWriteFolder: boolean
  /** Also true if the lock file does not exist yet. */
  mayLock: boolean
  /** The combined permissions of the file and its companions (-wal, -shm): 0o600 if only the owner can read them. */
  mode: number
  /** The problems that SQLite's integrity check found; null if it did not run. */
  damage: string[] | null
}

export interface PostgresFacts {
  kind: 'postgres'
  serverVersion: number
  isStandby: boolean
  settings: { synchronousCommit: string; fsync: string; fullPageWrites: string; autovacuum: string }
  schema: string
  /** false if there is no store yet. */
  hasSchema: boolean
  version: VersionFacts
  user: string
  /** Such as 'UPDATE on jobs'. */
  rightsMissing: string[]
  /** Whether this role can see the sessions of other users. */
  seesOthers: boolean
  holders: HorizonHolder[]
  tables: TableHealth[]
  /** null if there is no store, or it cannot be read. */
  partitions: PartitionFacts | null
  connections: { max: number; used: number }
  tls: TlsFacts
  /** The clock of the server minus the clock of this process. */
  clockAheadMs: number
  /** How long a notification took to come back, or why none came. */
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

/** A session, transaction or slot that keeps dead rows or the WAL from being removed. */
export interface HorizonHolder {
  kind: 'session' | 'prepared' | 'slot'
  /** The process id, transaction or slot to end. */
  name: string
  /** 'psql of ann on 10.0.0.7, idle in transaction'. */
  what: string
  /** null if the server does not know. */
  forMs: number | null
  /** How many transactions have run since; null if it holds no rows. */
  transactions: number | null
  /** The held part of the WAL; 0 if it holds none. */
  walBytes: number
  isActive: boolean
}

/** The history has a table for each day, made ahead of time. */
export interface PartitionFacts {
  /** Missing daily tables of today and tomorrow: 'events 2026-11-30'. */
  missing: string[]
  /** The default partitions that hold rows. */
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
  /** null if never, as far as the server knows. */
  vacuumedMsAgo: number | null
}

export interface OrphanFact {
  id: string
  type: string
  worker: string
  /** When its lease expired. */
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
  /** Expired leases that no worker has reclaimed. */
  expired: { count: number; oldestAtMs: number | null }
  paused: { queue: string; by: string; reason: string; atMs: number; untilMs: number | null }[]
  breakers: { name: string; status: string; reason: string; sinceMs: number; forcedBy: string | null }[]
  /** Notices that wait for these channels. */
  waits: { channel: string; notices: number; oldestAtMs: number }[]
}
