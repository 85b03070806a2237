/** Which folder may import what, and why. `tidy-rules.ts` applies it. */

export interface Layer {
  folder: string
  /** Beside its own folder. 'a/' is a folder, 'a/*.ts' the files directly in it, 'node:*' Node itself, '*' any package. */
  mayImport: readonly string[]
  /** Erased when the code runs, so allowed where a running import is not. */
  mayImportTypes?: readonly string[]
  reason: string
}

/** Stands for a name that only the running program knows. */
export const COMPUTED = '(computed)'
const PUBLIC_API = ['redress', 'redress/*', 'node:*', '*']

/** The most precise folder wins: a file of src/store/sqlite/ is judged by that line, not by the one of src/store/. */
const TABLE: readonly Layer[] = [
  {
    folder: 'src/core/',
    mayImport: ['zod'],
    reason: 'core decides from its arguments alone, so that a decision can be repeated, simulated and explained',
  },
  {
    folder: 'src/runtime/',
    mayImport: ['src/core/errors.ts', 'src/core/text/redact.ts', 'node:*', 'pino', 'croner'],
    reason: 'clock, chance, ids and log are given to the layers above and know none of them',
  },
  {
    folder: 'src/sse/',
    mayImport: ['src/runtime/', 'src/core/errors.ts', 'src/core/text/options.ts', 'node:*'],
    mayImportTypes: ['src/app/events/'],
    reason: 'a stream of events knows nothing of jobs, so that an app can use it for its own',
  },
  {
    folder: 'src/artifacts/',
    mayImport: ['src/runtime/', 'src/core/errors.ts', 'src/core/text/options.ts', 'node:*'],
    reason: 'files are stored by key, whatever they belong to',
  },
  {
    folder: 'src/artifacts/s3/',
    mayImport: [
      'src/artifacts/',
      'src/outbound/',
      'src/runtime/',
      'src/core/errors.ts',
      'node:*',
      '@aws-sdk/client-s3',
    ],
    reason: 'the S3 client is heavy: it stays in the one folder that is loaded only when an s3: store is named',
  },
  {
    folder: 'src/programs/',
    // The output of a program must be redacted before it leaves the folder that ran it.
    mayImport: ['src/runtime/', 'src/core/errors.ts', 'src/core/text/options.ts', 'src/core/text/redact.ts', 'node:*'],
    reason: 'a program is run and judged without knowledge of jobs',
  },
  {
    folder: 'src/outbound/',
    // How long a server asks to be left alone is read once, for the engine and for those who make requests.
    mayImport: [
      'src/runtime/',
      'src/core/errors.ts',
      'src/core/text/options.ts',
      'src/core/failure/retry-after.ts',
      'node:*',
      'undici',
    ],
    reason: 'the guard of outgoing requests must be readable alone: it knows addresses, not jobs',
  },
  {
    folder: 'src/tracing/',
    mayImport: ['src/runtime/', 'src/core/errors.ts', 'node:*', '@opentelemetry/*'],
    reason: 'only this folder knows OpenTelemetry; its SDK is loaded only when the environment names a collector',
  },
  {
    folder: 'src/metrics/',
    mayImport: ['src/core/', 'src/store/', 'src/worker/', 'src/runtime/', 'prom-client', 'node:*'],
    mayImportTypes: ['src/app/'],
    reason: 'metrics read what the store and the workers report, and change nothing',
  },
  {
    folder: 'src/store/',
    mayImport: ['src/core/', 'node:*'],
    reason: 'the store keeps what core decided; who calls it and on which driver is not its business',
  },
  {
    folder: 'src/store/contract/',
    mayImport: ['src/core/'],
    reason: 'the interface of the store is what every driver and every caller agree on: it knows neither',
  },
  {
    folder: 'src/store/scripts/',
    mayImport: ['src/core/', 'src/store/contract/', 'node:*'],
    reason: 'a transaction is written once for all drivers, so it knows none of them',
  },
  {
    folder: 'src/store/decorators/',
    mayImport: ['src/core/', 'src/store/contract/', 'src/store/scripts/', 'node:*'],
    reason: 'a decorator wraps any store, so it knows the interface alone',
  },
  {
    folder: 'src/store/sqlite/',
    mayImport: ['src/core/', 'src/store/contract/', 'src/store/scripts/', 'node:*'],
    reason: 'a driver knows core, the interface, the shared scripts and its own client, but no other driver',
  },
  {
    folder: 'src/store/postgres/',
    mayImport: ['src/core/', 'src/store/contract/', 'src/store/scripts/', 'node:*', 'postgres'],
    reason: 'a driver knows core, the interface, the shared scripts and its own client, but no other driver',
  },
  {
    folder: 'src/store/copy/',
    mayImport: ['src/core/', 'src/store/contract/', 'src/store/scripts/'],
    reason: 'a copy goes from any driver to any other: it knows both by their interface alone',
  },
  {
    folder: 'src/store/conformance/',
    // It brings the clock and the chance that it tries a driver with.
    mayImport: [
      'src/core/',
      'src/store/contract/',
      'src/store/scripts/',
      'src/store/decorators/',
      'src/runtime/',
      'node:*',
    ],
    reason: 'the suite is published for drivers written elsewhere: it must favour no driver and need no test runner',
  },
  {
    folder: 'src/operations/',
    // One place each defines ids, secrets, what a seed draws, and the format of times.
    mayImport: [
      'src/core/',
      'src/store/',
      'src/runtime/id.ts',
      'src/runtime/secret.ts',
      'src/runtime/chance.ts',
      'src/runtime/moment.ts',
      'zod',
      'node:*',
    ],
    reason: 'an operation says what may be done to stored jobs; the doors that offer it come later',
  },
  {
    folder: 'src/worker/',
    mayImport: ['src/core/', 'src/store/', 'src/runtime/', 'src/tracing/', 'node:*'],
    reason: 'a worker turns claims into closes; people reach jobs through operations, not through it',
  },
  {
    folder: 'src/isolation/',
    // The computed name is the module of the user's handler.
    mayImport: ['src/core/', 'src/runtime/', 'src/programs/', 'src/worker/attempt/attempt.ts', 'node:*', COMPUTED],
    reason:
      'a handler in a thread or process of its own is a handler like any other: it knows its attempt, not the worker',
  },
  {
    folder: 'src/app/',
    mayImport: [
      'src/core/',
      'src/store/',
      'src/operations/',
      'src/worker/',
      'src/isolation/',
      'src/metrics/',
      'src/tracing/',
      'src/runtime/',
      'zod',
      'node:*',
    ],
    reason: 'the job API must work in a program that has no server and no command line; it offers the same operations',
  },
  {
    folder: 'src/app/import/',
    // The computed name is `ioredis` of the user's project.
    mayImport: ['src/core/', 'src/store/', 'src/app/', 'node:*', COMPUTED],
    reason: 'other job systems are read in the one folder that is loaded only by an import',
  },
  {
    folder: 'src/notify/',
    mayImport: ['src/app/', 'src/core/', 'src/runtime/', 'src/outbound/', 'zod', 'node:*', 'nodemailer', 'undici'],
    reason: 'a delivery is a job like any other, submitted through the API that everybody has',
  },
  {
    folder: 'src/http/',
    mayImport: [
      'src/operations/',
      'src/runtime/',
      'src/sse/',
      'src/tracing/',
      'src/metrics/',
      'src/artifacts/',
      'src/outbound/addresses.ts',
      'src/core/',
      'zod',
      'node:*',
      'fastify',
      '@fastify/*',
    ],
    mayImportTypes: ['src/app/', 'src/store/'],
    reason: 'a door holds no logic: what it offers is in the table of operations, for every door alike',
  },
  {
    folder: 'src/cli/',
    // The computed name is the user's own app, which the command line loads; zod is for the sample app's input.
    mayImport: [
      'src/operations/',
      'src/app/',
      'src/http/',
      'src/runtime/',
      'src/tracing/',
      'src/core/',
      'zod',
      'node:*',
      COMPUTED,
    ],
    mayImportTypes: ['src/store/', 'src/worker/'],
    reason: 'a door holds no logic: what it offers is in the table of operations, for every door alike',
  },
  {
    folder: 'src/testing/',
    mayImport: ['src/app/', 'src/worker/', 'src/store/', 'src/runtime/', 'src/core/', 'zod', 'node:*'],
    reason: 'published as redress/testing, it must work with any test runner and without the doors',
  },
  {
    folder: 'dashboard/',
    // Which operations there are, who may do them and how they are asked for: as the command line knows it.
    mayImport: ['*', 'src/operations/catalog.ts', 'src/operations/request-of.ts', 'src/operations/caller.ts'],
    mayImportTypes: ['src/'],
    reason: 'the dashboard knows the server by HTTP only, as any other client does',
  },
  { folder: 'apps/', mayImport: PUBLIC_API, reason: 'an app shows that the public exports are enough' },
  {
    folder: 'apps/fetchbox/',
    // The computed name is a handler of the operator's own, which fetchbox loads from a folder.
    mayImport: ['apps/shared/', ...PUBLIC_API, COMPUTED],
    reason: 'an app shows that the public exports are enough',
  },
  {
    folder: 'examples/',
    mayImport: PUBLIC_API,
    reason: 'a reader copies an example: it must work outside this checkout',
  },
  {
    folder: 'bench/',
    // What starts a database or a browser is no part of what is measured; the marks of the watermark app are, and how
    // fetchbox moves one resource. The computed name is a peer that is installed in a folder of its own.
    mayImport: [
      ...PUBLIC_API,
      COMPUTED,
      'apps/watermark/src/media/',
      'apps/shared/src/media/',
      'apps/fetchbox/src/transfer/',
      'test/support/servers/forward-proxy.ts',
      'test/support/servers/redis.ts',
      'test/support/s3/server.ts',
      'test/support/stores/postgres.ts',
      'test/support/browser/chromium.ts',
    ],
    reason: 'a benchmark measures what a user of the package would get',
  },
]

/** In the table, 'src/' and 'dashboard/' are those of the engine's package. */
const inEngine = (pattern: string): string => pattern.replace(/^(src|dashboard)\//, 'packages/redress/$1/')

export const LAYERS: readonly Layer[] = TABLE.map(({ folder, mayImport, mayImportTypes, reason }) => ({
  folder: inEngine(folder),
  mayImport: mayImport.map(inEngine),
  ...(mayImportTypes !== undefined && { mayImportTypes: mayImportTypes.map(inEngine) }),
  reason,
}))
