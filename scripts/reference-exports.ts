import { page, table } from './reference-text.ts'

/** What a program imports from `redress`, each with its meaning. A test compares it with what is exported. */
export const ROOT_EXPORTS: Readonly<Record<string, string>> = {
  redress: 'makes an app: `redress({ store })`',
  App: 'one program at a store: its job types, submissions, workers and operations',
  AppOptions: 'what `redress()` takes',
  JobDefinition: 'what `app.job(name, ...)` takes',
  JobType: 'what `app.job()` returns: submits jobs of one type',
  SubmitOptions: 'owner, priority, delay, dedupe key and batch of a submission',
  PreparedJob: 'a checked submission for `app.submitIn`, inside your own transaction',
  Attempt: 'what a handler gets beside its input: signal, progress, `fail`, `stage`, `snooze`',
  AttemptFailOptions: 'what `attempt.fail(code, ...)` takes: message, detail, context, retryAfter',
  StageOptions: 'what `attempt.stage` takes',
  StageTry: 'one try of a stage',
  Cancelled: 'why the signal of an attempt fired: a person cancelled the job',
  LeaseLost: 'why the signal of an attempt fired: another worker may run the job now',
  ShuttingDown: 'why the signal of an attempt fired: the worker stops',
  Worker: 'what `app.work()` returns',
  outcomeLog: 'writes one log line per ended attempt: `app.work({ onOutcome: outcomeLog(log) })`',
  Log: 'the log that an app writes to; pino fits',
  policy: 'checks a policy and fills in its defaults',
  Policy: 'a policy in full',
  PolicyInput: 'a policy as its author writes it',
  exponential: 'backoff that grows by a factor',
  table: 'backoff from a list of delays',
  failureCodes: 'declares the failure codes of a job type',
  CodeSpec: 'one failure code: fault, retry class, messages',
  Taxonomy: 'the failure codes of a job type',
  ENGINE_CODES: 'the failure codes that the engine uses by itself',
  rule: 'one rule of `classify`: which error gets which code',
  Rule: 'the type of such a rule',
  Failure: 'a failure as it was captured and classified',
  RedressError: 'every refusal of a call: code, message, action',
  ERRORS: 'the table of refusals: code, HTTP status, exit code, action',
  ErrorCode: 'a code of this table',
  Batch: 'a batch that this program made: adds jobs and seals it',
  BatchOptions: 'what `app.batches.create(name, ...)` takes',
  BatchOutcome: 'what the job of `onSettled` finds as `batch` in its input',
  BatchView: 'a batch with its counts',
  BatchDetail: 'the same with its history',
  JobView: 'a job as every door shows it',
  EventView: 'one event of the history of a job',
  FailureView: 'one recorded failure of a job with its decision',
  renderExplanation: 'the answer of `jobs.explain` as text for a person',
  Notice: 'what a channel delivers',
  ScheduleDefinition: 'what `app.schedule(name, ...)` takes',
  OperationName: 'the name of an operation: `jobs.retry`',
  OperationInput: 'its input: `OperationInput<"jobs.retry">`',
  OperationOutput: 'its answer: `OperationOutput<"jobs.retry">`',
}

const words = (text: string): string[] => text.trim().split(/\s+/)

interface Subpath {
  about: string
  guide: string
  names: readonly string[]
}

/** The other names that the package exports, by subpath. */
export const SUBPATH_EXPORTS: Readonly<Record<string, Subpath>> = {
  artifacts: {
    about: 'Files of jobs, stored by key in a folder or a bucket.',
    guide: 'jobs/artifacts',
    names: words(`
      ArtifactBody ArtifactContent ArtifactHead ArtifactPage ArtifactStore ArtifactStoreOptions S3Credentials
      SpaceLimits StoredArtifact artifactStore keyPart
    `),
  },
  http: {
    about: 'The server, and what the routes of an app are made of.',
    guide: 'operate/server',
    names: words(`
      AppCommand AppModule Caller CommandCall CommandOption CommandTarget CompleteJob CopiedCount FileFacts FileRange FileSource FindCaller FindFile HTTP_LIMITS Html
      HttpLimits HttpServer InstalledApp JobFile MayHear Mount MountTools Role RouteDescription SendFileOptions ServerOptions
      InstallContext TrustedProxies artifactFile clientAddress diskFile html noteOnRequest page sendFile startServer
    `),
  },
  metrics: {
    about: 'What a process counts for Prometheus, as `app.metrics` gives it.',
    guide: 'operate/metrics',
    names: words('Metrics Registry'),
  },
  notify: {
    about: 'Channels for notices: mail and signed webhooks, and what a channel of your own is made of.',
    guide: 'failures/notices',
    names: words(`
      Address Channel Delivered Delivery DeliveryCode EmailOptions Mail Notice NoticeBatch NoticeContent
      NoticeFailure NoticeJob NoticeText NoticeTextOptions NotifyOptions SmtpOptions WebhookOptions email
      renderNotice webhook
    `),
  },
  outbound: {
    about: 'Guarded requests to addresses that users chose.',
    guide: 'jobs/outbound',
    names: words(`
      ConnectCode ConnectFailed NameNotResolved OutboundAgentOptions OutboundGuard OutboundOptions OutboundProxy
      OutboundRefused OutboundRequestOptions OutboundResponse OutboundTarget OutboundTimeout ProxyCode ProxyFailed
      RedirectCode RedirectFailed RefusalCode ResolvedAddress isGlobalAddress outboundAgent outboundGuard
      outboundRequest readEarlyAnswers retryAfterHeaderMs timeoutPhase
    `),
  },
  programs: {
    about: 'Child processes with limits, whose failures can be classified.',
    guide: 'jobs/programs',
    names: words('ProgramFailed ProgramFailure ProgramLimits ProgramOptions ProgramResult runProgram'),
  },
  sse: {
    about: 'Live events as a stream for browsers, and the types of `app.hub`.',
    guide: 'operate/live-events',
    names: words(`
      EndReason Hub HubEvent MappableEvent MappedEvent Mapper SseMessage SseStreamOptions SubscribeOptions
      Subscription formatSse sseComment sseStream
    `),
  },
  store: {
    about: 'What a store does, for drivers of your own, and rows of an app beside it.',
    guide: 'jobs/transactional-submit',
    names: words(`
      ActorAndReason AsyncExecutor FeedEvent JobEvent JobFeedEvent JobRow Lease NewJob PostgresAnswer PostgresQuery PostgresRows
      PostgresValue Store SubjectFeedEvent Submitted SyncExecutor openPostgresRows
    `),
  },
  testing: {
    about: 'A world for tests in which time and chance are yours, and the promises of a store.',
    guide: 'jobs/testing',
    names: words(`
      ATTEMPT_STEPS AttemptStep Bench Chance Clock CrashOptions Driver KitOptions StorePromise TestKit VirtualClock
      checkJob conformance promises rebuild seededChance testKit
    `),
  },
}

export function exportsPage(): string {
  return page(
    'Exports',
    `What \`import { ... } from 'redress'\` gives. Everything else is in the subpaths below, so that a program loads only what
it uses.`,
    table(
      ['name', 'is'],
      Object.entries(ROOT_EXPORTS).map(([name, meaning]) => [`\`${name}\``, meaning]),
    ),
    ...Object.entries(SUBPATH_EXPORTS).flatMap(([subpath, { about, guide, names }]) => [
      `## redress/${subpath}`,
      `${about} See the [guide](../guides/${guide}.md).`,
      `${names.map((name) => `\`${name}\``).join(', ')}.`,
    ]),
  )
}
