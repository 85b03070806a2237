import fc from 'fast-check'
import type { Asking, CallerName } from '../world.ts'
import type { DocumentedOperation, OpenApiDocument, Parameter } from './document.ts'

export interface HostileRequest {
  as: CallerName
  method: string
  path: string
  /** The path as the document has it; null where there is none. */
  template: string | null
  asking: Pick<Asking, 'rawBody' | 'headers'>
}

const long = (text: string, times: number): string => text.repeat(times)

/** What programs have tripped over. */
const TEXTS = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\r\nSet-Cookie: a=b',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  "' OR 1=1 --",
  '"; DROP TABLE jobs; --',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '../../../../etc/passwd',
  '..%2f..%2fetc%2fpasswd',
  'file:///etc/passwd',
  '\u202e\u200b\ufeff',
  '\ud800',
  '👩‍👩‍👧‍👦',
  'ﷺ',
  'İ',
  '-1',
  '0',
  '1e400',
  '-0',
  'NaN',
  'Infinity',
  'null',
  'undefined',
  'true',
  '[object Object]',
  '9007199254740993',
  '99999999999999999999999999',
  '-9223372036854775809',
  '2147483648',
  '1.5',
  '0x10',
  '2026-02-30T25:61:61Z',
  '9999999d',
  '-5m',
  '1/0s',
  '%',
  '%00',
  '%c0%af',
  '\\',
  long('a', 300),
  long('é', 500),
]
const LONG_TEXTS = [long('x', 5_000), long('[', 20_000), long('{"a":', 5_000)]

const hostileText = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...TEXTS) },
  { weight: 1, arbitrary: fc.constantFrom(...LONG_TEXTS) },
  { weight: 3, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
)
const hostileNumber = fc.constantFrom(0, -0, -1, 1.5, 1e308, -1e308, 2 ** 53, -(2 ** 53), 2 ** 31, 2 ** 63, 1e21, 1e-7)
const hostileValue = fc.oneof(
  hostileText,
  hostileNumber,
  fc.constantFrom<unknown>(null, true, false, [], {}, [null], { toString: 1 }, { length: -1 }, [[[[]]]]),
  fc.jsonValue({ maxDepth: 4 }),
)

/** As the schema wants it, often with a value that is really there. */
function goodValue(name: string, schema: Record<string, unknown>, known: readonly string[]): fc.Arbitrary<unknown> {
  const {
    type,
    enum: choices,
    anyOf,
  } = schema as { type?: string; enum?: unknown[]; anyOf?: Record<string, unknown>[] }
  if (choices !== undefined) return fc.constantFrom(...choices)
  if (name === 'reason') return fc.constantFrom('a test', 'another')
  if (anyOf !== undefined) return fc.oneof(...anyOf.map((one) => goodValue(name, one, known)))
  if (type === 'boolean') return fc.boolean()
  if (type === 'integer' || type === 'number') return fc.integer({ min: 0, max: 1_000 })
  if (type === 'array') return fc.array(fc.constantFrom(...known), { maxLength: 3 })
  if (type === 'string') return fc.constantFrom(...known, '5m', '1h', '2026-11-16T00:00:00.000Z')
  return fc.oneof(fc.constant({ fails: false }), fc.jsonValue({ maxDepth: 2 }))
}

const anyValue = (name: string, schema: Record<string, unknown>, known: readonly string[]): fc.Arbitrary<unknown> =>
  fc.oneof(goodValue(name, schema, known), hostileValue)

const encoded = (value: unknown): fc.Arbitrary<string> => {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const safely = encodeURIComponent(text.toWellFormed())
  // As it stands, it may not even be a path; what a client would refuse to send is taken out.
  const raw = text.replace(/[^\x21-\x7e]/g, '').replace(/[?#/]/g, '')
  return fc.oneof(
    { weight: 6, arbitrary: fc.constant(safely) },
    { weight: 1, arbitrary: fc.constantFrom(raw, `${raw}%`, `${raw}%zz`, `%00${safely}`, `${safely}%c3%28`) },
  )
}

function queryOf(parameters: readonly Parameter[], known: readonly string[]): fc.Arbitrary<string> {
  const fields = parameters.filter((one) => one.in === 'query')
  const one = (name: string, schema: Record<string, unknown>) =>
    anyValue(name, schema, known)
      .chain(encoded)
      .map((text) => `${name}=${text}`)
  const named = fields.map(({ name, schema }) => one(name, schema))
  const strange = fc.constantFrom(
    '__proto__=1',
    'constructor[prototype]=1',
    'a[]=1',
    'actor=mallory',
    'owner=bob',
    '=',
    '&',
  )
  return fc
    .array(named.length === 0 ? strange : fc.oneof({ weight: 6, arbitrary: fc.oneof(...named) }, strange), {
      maxLength: 4,
    })
    .map((parts) => (parts.length === 0 ? '' : `?${parts.join('&')}`))
}

function bodyOf(
  { requestBody }: DocumentedOperation,
  known: readonly string[],
): fc.Arbitrary<string | Buffer | undefined> {
  const schema = requestBody?.content['application/json'].schema ?? {}
  const { properties = {} } = schema as { properties?: Record<string, Record<string, unknown>> }
  const fields = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, anyValue(name, one, known)]))
  const whole = fc.record(fields, { requiredKeys: properties.reason === undefined ? [] : ['reason'] })
  const good = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, goodValue(name, one, known)])),
    { requiredKeys: [] },
  )
  return fc.oneof(
    { weight: 5, arbitrary: whole.map((value) => JSON.stringify(value)) },
    { weight: 5, arbitrary: good.map((value) => JSON.stringify({ reason: 'a test', ...value })) },
    { weight: 1, arbitrary: hostileValue.map((value) => JSON.stringify(value) as string | undefined) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<string | Buffer | undefined>(
        undefined,
        '',
        '{',
        '{"a":1,}',
        '{"__proto__":{"isAdmin":true},"reason":"x"}',
        '{"constructor":{"prototype":{"isAdmin":true}}}',
        '\ufeff{}',
        `{"input":${long('[', 50_000)}${long(']', 50_000)},"type":"step"}`,
        `{"input":${long('{"a":', 20_000)}1${long('}', 20_000)},"type":"step"}`,
        '{"reason":"a","reason":"b"}',
        '{"reason":"\\ud800"}',
        '{"reason":"\\u0000","type":"step","name":"\\u0000"}',
        `{"reason":"${long('r', 100_000)}"}`,
        Buffer.from([0xff, 0xfe, 0x7b, 0x7d]),
      ),
    },
  )
}

const hostileHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 10, arbitrary: fc.constant({}) },
  {
    weight: 6,
    arbitrary: fc.constantFrom<Record<string, string>>(
      { cookie: '=; ;;; redress' },
      { cookie: `redress=${long('%', 100)}` },
      { cookie: 'redress="unfinished' },
      { cookie: 'redress=%zz; redress=rdrs_x' },
      { cookie: '__proto__=1; constructor=2' },
      { cookie: long('a=b;', 1_000) },
      { authorization: 'Bearer' },
      { authorization: 'Bearer  ' },
      { authorization: `Bearer ${long('x', 4_000)}` },
      { authorization: 'Basic YTpi' },
      { authorization: 'Bearer __proto__' },
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/json; charset=utf-7' },
      { 'content-type': 'application/json; charset=' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'multipart/form-data' },
      { 'content-type': ';;;' },
      { 'content-encoding': 'gzip' },
      { accept: 'text/html' },
      { accept: long('*/*,', 500) },
      { 'last-event-id': '-1' },
      { 'last-event-id': '99999999999999999999' },
      { 'last-event-id': '\x80' },
      { host: 'evil.example' },
      { host: '' },
      { host: '[::1' },
      { origin: 'null' },
      { origin: 'https://evil.example' },
      { 'sec-fetch-site': 'cross-site' },
      { 'x-forwarded-for': long('1.2.3.4,', 300) },
      { 'x-forwarded-host': 'evil.example' },
      { 'x-http-method-override': 'DELETE' },
      { range: 'bytes=0-,5-1,-9' },
      { expect: '100-continue' },
      { traceparent: '00-zzzz' },
      { 'x-request-id': long('y', 3_000) },
    ),
  },
)

/** Requests made from the document of the server itself, and then made worse. */
export function hostileRequests(document: OpenApiDocument, known: readonly string[]): fc.Arbitrary<HostileRequest> {
  const routes = Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ template, method: method.toUpperCase(), operation })),
  )
  const documented = fc.constantFrom(...routes).chain(({ template, method, operation }) => {
    const { parameters = [] } = operation
    const places = parameters.filter((one) => one.in === 'path')
    const filled = fc.tuple(...places.map(({ name, schema }) => anyValue(name, schema, known).chain(encoded)))
    return fc.record({
      as: fc.constantFrom<CallerName>('admin', 'admin', 'operator', 'viewer', 'owner', 'scoped', 'stranger', 'expired'),
      method: fc.oneof(
        { weight: 30, arbitrary: fc.constant(method) },
        fc.constantFrom('PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD', 'TRACE', 'GET', 'POST'),
      ),
      path: fc
        .tuple(filled, method === 'GET' ? queryOf(parameters, known) : fc.constantFrom('', '', '', '?actor=x'))
        .map(
          ([values, query]) =>
            places.reduce((path, { name }, i) => path.replace(`{${name}}`, () => values[i] ?? ''), template) + query,
        ),
      template: fc.constant<string | null>(template),
      asking: fc
        .tuple(method === 'GET' ? fc.constant(undefined) : bodyOf(operation, known), hostileHeaders)
        .map(([rawBody, headers]) => ({
          ...(rawBody !== undefined && { rawBody }),
          headers: { ...(rawBody !== undefined && { 'content-type': 'application/json' }), ...headers },
        })),
    })
  })
  const elsewhere = fc.record({
    as: fc.constantFrom<CallerName>('admin', 'stranger'),
    method: fc.constantFrom('GET', 'POST', 'HEAD', 'OPTIONS'),
    path: fc.constantFrom(
      ...[
        '/',
        '//',
        '/api',
        '/api/',
        '/api/jobs/',
        '/api//jobs',
        '/%2e%2e/',
        '/..;/',
        '/api/jobs/../../etc/passwd',
        '/sign-in',
      ],
      ...[
        '/sign-in?code=%00',
        '/sign-in?code=a&code=b',
        '/sign-out',
        '/assets/base.css',
        '/assets/../package.json',
        '/favicon.ico',
      ],
      ...[
        '/%',
        '/%zz',
        '/api/jobs/%c0%af',
        '/.env',
        `/${long('a/', 2_000)}`,
        `/api/jobs/${long('a', 600)}`,
        '*',
        '/?',
        '/#',
      ],
    ),
    template: fc.constant<string | null>(null),
    asking: fc
      .tuple(
        fc.constantFrom<string | undefined>(undefined, '{}', 'code=a', '{"code":{"a":1}}', '"x"', '[1]'),
        hostileHeaders,
      )
      .map(([rawBody, headers]) => ({ ...(rawBody !== undefined && { rawBody }), headers })),
  })
  return fc.oneof({ weight: 12, arbitrary: documented }, { weight: 1, arbitrary: elsewhere })
}
