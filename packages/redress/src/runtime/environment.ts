interface Variable {
  /** What holds when it is not set; null: nothing. */
  fallback: string | null
  meaning: string
  /** It is not read by our own code. */
  readBy?: 'the exporter' | 'nobody'
}

/**
 * Every variable of the environment that means something to Redress. The page of the reference is made from it, and a
 * test compares it with what the code reads.
 */
export const ENVIRONMENT = {
  REDRESS_STORE: {
    fallback: 'sqlite:.redress/redress.db',
    meaning: 'The store of an app or a command that names none: `sqlite:path/to/file.db` or `postgres://...`.',
  },
  DATABASE_URL: {
    fallback: null,
    meaning: 'The same, where `REDRESS_STORE` is not set; only an address of PostgreSQL is taken from it.',
  },
  PGPORT: { fallback: '5432', meaning: 'The port of PostgreSQL, where an address names none.' },
  PGSSLMODE: {
    fallback: 'prefer',
    meaning: 'How connections to PostgreSQL are encrypted, if the address has no `sslmode`.',
  },
  PGSSLROOTCERT: { fallback: null, meaning: 'The CA certificate file for PostgreSQL, or `system`.' },
  PGSSLCERT: { fallback: null, meaning: 'The client certificate file for PostgreSQL.' },
  PGSSLKEY: { fallback: null, meaning: 'The private key file of the client certificate.' },
  REDRESS_SERVER: {
    fallback: null,
    meaning: 'The server that commands ask instead of a store, such as `https://jobs.example.org`.',
  },
  REDRESS_TOKEN: { fallback: null, meaning: 'The token that commands show to that server.' },
  REDRESS_TOKEN_FILE: { fallback: null, meaning: 'A file that holds that token, where `REDRESS_TOKEN` is not set.' },
  REDRESS_HOST: { fallback: '127.0.0.1', meaning: 'The address that `redress start` listens on.' },
  REDRESS_PORT: { fallback: '7373', meaning: 'Its port; 0 for any that is free.' },
  REDRESS_PUBLIC_URL: { fallback: null, meaning: 'The address under which people reach it, behind a proxy.' },
  REDRESS_APPS: {
    fallback: null,
    meaning:
      'The apps that `redress start` and `redress worker` run, where `--apps` is absent; their commands are available, too.',
  },
  WORKER_CONCURRENCY: {
    fallback: '10',
    meaning: 'How many jobs `redress start` and `redress worker` run at once, where `--concurrency` does not say it.',
  },
  WORKER_QUEUES: {
    fallback: null,
    meaning:
      'The only queues whose job types `redress start` and `redress worker` run, where `--queues` is absent: `mail,pdf`.',
  },
  WORKER_TYPES: {
    fallback: null,
    meaning: 'The only job types that they run, where `--types` is absent: `pdf.convert,mail.send`.',
  },
  WORKER_PER_TYPE: {
    fallback: null,
    meaning: 'How many jobs of a type each of them runs at once, where `--per-type` is absent: `pdf.convert=2`.',
  },
  REDRESS_PROGRAM_RUN: {
    fallback: null,
    meaning: 'Set for the programs that a handler runs, so that all their processes are found. Not to be set by you.',
    readBy: 'nobody',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    fallback: null,
    meaning: 'A collector: `redress start` and `redress worker` send their traces there, over OTLP/HTTP.',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    fallback: null,
    meaning: 'The same, as the whole address to which traces are sent.',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    fallback: null,
    meaning: 'Headers to send with them: `name=value,name=value`.',
    readBy: 'the exporter',
  },
  OTEL_EXPORTER_OTLP_TIMEOUT: {
    fallback: '10000',
    meaning: 'How long sending may take, in milliseconds.',
    readBy: 'the exporter',
  },
  OTEL_SERVICE_NAME: {
    fallback: 'redress',
    meaning: 'The name under which the traces of this process are found.',
    readBy: 'the exporter',
  },
  OTEL_RESOURCE_ATTRIBUTES: {
    fallback: null,
    meaning: 'More attributes of this process: `name=value,name=value`.',
    readBy: 'the exporter',
  },
  OTEL_TRACES_SAMPLER: {
    fallback: 'parentbased_always_on',
    meaning:
      'Which traces are recorded: `always_on`, `always_off`, `traceidratio`, or one of these after `parentbased_`.',
  },
  OTEL_TRACES_SAMPLER_ARG: { fallback: '1', meaning: 'The part of them, from 0 to 1, for the samplers by ratio.' },
  OTEL_SDK_DISABLED: { fallback: 'false', meaning: '`true` sends no traces, whatever else is set.' },
  USER: { fallback: 'the name of the account', meaning: 'The actor of a command that has no --actor.' },
  NO_COLOR: { fallback: null, meaning: 'Anything but the empty text: no colours (no-color.org).' },
  TERM: { fallback: null, meaning: '`dumb`: no colours and no line of progress.' },
  PATH: { fallback: '/usr/bin:/bin:/usr/local/bin', meaning: 'Where the programs that a handler runs are looked for.' },
  LANG: { fallback: null, meaning: 'Handed on to the programs that a handler runs, as are the next three.' },
  LC_ALL: { fallback: null, meaning: 'Handed on to them.' },
  TZ: { fallback: null, meaning: 'Handed on to them. What Redress writes is in UTC.' },
  TMPDIR: { fallback: null, meaning: 'Handed on to them.' },
} as const satisfies Record<string, Variable>
