import { describe, expect, test } from 'vitest'
import { CODES, type Code, categoryOf, isRetryable } from '../../src/failures/failure.ts'
import { forbiddenHeader, headerProblem } from '../../src/requests/read-request.ts'

const codes = Object.keys(CODES) as Code[]

describe('the taxonomy', () => {
  test('every code begins with one of the seven prefixes and each prefix has codes [F2]', () => {
    const found = new Set(codes.map(categoryOf))
    expect(found).toEqual(
      new Set(['validation', 'authorization', 'handler', 'download', 'upload', 'storage', 'system']),
    )
    expect(categoryOf('WORKER_LOST')).toBeNull()
  })

  test('the taxonomy has the codes that the source document names [F3]', () => {
    expect(codes).toEqual(
      expect.arrayContaining([
        'VALIDATION_MISSING_FIELD',
        'DOWNLOAD_TIMEOUT',
        'DOWNLOAD_HTTP_4XX',
        'DOWNLOAD_PROXY_EXHAUSTED',
        'UPLOAD_S3_ERROR',
        'SYSTEM_PANIC',
      ]),
    )
  })

  test('exactly the listed codes are retryable [F7 F9 F10 F13 F14]', () => {
    expect(codes.filter(isRetryable)).toEqual([
      'DOWNLOAD_TIMEOUT',
      'DOWNLOAD_DNS',
      'DOWNLOAD_CONNECTION',
      'DOWNLOAD_PROTOCOL',
      'DOWNLOAD_HTTP_408',
      'DOWNLOAD_HTTP_429',
      'DOWNLOAD_HTTP_499',
      'DOWNLOAD_HTTP_5XX',
      'DOWNLOAD_PROXY_FAILED',
      'DOWNLOAD_PROXY_EXHAUSTED',
      'DOWNLOAD_INCOMPLETE',
      'DOWNLOAD_CHECKSUM',
      'UPLOAD_S3_ERROR',
      'UPLOAD_THROTTLED',
      'UPLOAD_NETWORK',
      'UPLOAD_IO_ERROR',
      'UPLOAD_DISK_FULL',
      'UPLOAD_CHECKSUM',
      'STORAGE_UNAVAILABLE',
      'STORAGE_FULL',
      'SYSTEM_SPOOL_FULL',
    ])
  })

  test('a code that is tried again has other words while it waits than when it is over', () => {
    for (const code of codes.filter(isRetryable)) expect(CODES[code].waiting).not.toBe(CODES[code].message)
    for (const code of codes.filter((each) => !isRetryable(each))) expect(CODES[code].waiting).toBeUndefined()
  })
})

describe('request headers', () => {
  test.each([
    'Host',
    'content-length',
    'Transfer-Encoding',
    'Connection',
    'Keep-Alive',
    'TE',
    'Upgrade',
    'Range',
    'Proxy-Authorization',
    'proxy-connection',
  ])('%s is not a task’s to set', (name) => {
    expect(forbiddenHeader(name)).toBe(true)
    expect(headerProblem(name, 'x')).not.toBeNull()
  })

  test.each([
    ['Authorization', 'Bearer abc'],
    ['Cookie', 'a=b; c=d'],
    ['Accept', '*/*'],
    ['X-Empty', ''],
    ['User-Agent', 'mine'],
  ])('%s is', (name, value) => {
    expect(headerProblem(name, value)).toBeNull()
  })

  test.each([
    ['two words', 'x'],
    ['', 'x'],
    ['X-Split', 'a\r\nInjected: yes'],
    ['X-Split', 'a\nInjected: yes'],
    ['X-Nul', 'a\0b'],
    ['X-Umlaut', 'grün'],
    ['X-Blank', ' a'],
    ['X:Colon', 'x'],
  ])('%j: %j is refused, and the value is not repeated', (name, value) => {
    const problem = headerProblem(name, value)
    expect(problem).not.toBeNull()
    if (value.length > 2) expect(problem).not.toContain(value)
  })

  test('a value has its bound', () => {
    expect(headerProblem('X-Long', 'a'.repeat(8192))).toBeNull()
    expect(headerProblem('X-Long', 'a'.repeat(8193))).toMatch(/more than 8192/)
  })
})
