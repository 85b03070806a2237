import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fingerprint } from '../../../src/core/failure/fingerprint.ts'

const frames = [
  'Error: boom',
  '    at async Converter.send (file:///app/src/gateway.ts:10:5)',
  '    at /app/node_modules/undici/index.js:1:1',
  '    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)',
  '    at run (/app/src/convert.ts:99:1)',
]
const of = (parts: Partial<Parameters<typeof fingerprint>[0]>) =>
  fingerprint({ type: 'pdf.convert', code: 'GW_5XX', message: 'boom', frames, ...parts })
const ofMessage = (message: string) => of({ message })

test('a fingerprint carries its version and 64 bits', () => {
  expect(of({})).toMatch(/^1:[0-9a-f]{16}$/)
  // Stored groups outlive releases: change the version when this changes.
  expect(of({})).toBe('1:11827908e1046aa6')
})

test.each([
  ['numbers', 'took 1532 ms of 2,000', 'took 7 ms of 10'],
  ['ids', 'job 0190c1de-7b1a-7c3e-8000-1234567890ab lost', 'job 1190c1de-7b1a-7c3e-9000-abcdef567890 lost'],
  ['hashes', 'object 9f86d081884c7d65 gone', 'object 60303ae22b998861 gone'],
  ['short hex ids', 'commit 9f86d08 gone', 'commit 1a2b3c4 gone'],
  ['nanoids', 'token V1StGXR8_Z5jdHi6B-myT used', 'token 9x-Qm2LkPqRsTuVwXyZa0b used'],
  ['quoted names', `cannot find 'a b.mp4' in "x"`, `cannot find 'c.mp4' in "y z"`],
  ['paths', 'ENOENT: open /data/jobs/7/in.mp4', 'ENOENT: open /srv/in/other name.mov'],
  ['Windows paths', 'cannot open C:\\jobs\\7\\in.mp4', 'cannot open D:\\in\\x.mp4'],
  ['URLs', 'GET https://api.example.com/v1/items/7?x=1 failed', 'GET https://api.example.com/v1/users failed'],
  ['addresses', 'connect ECONNREFUSED 10.0.0.7:8080', 'connect ECONNREFUSED 10.0.1.12:9090'],
])('%s that differ from job to job do not split a group', (_, one, other) => {
  expect(ofMessage(one)).toBe(ofMessage(other))
})

test.each([
  ['another type', of({ type: 'other' })],
  ['another code', of({ code: 'GW_4XX' })],
  ['another message', ofMessage('bang')],
  ['another dependency', ofMessage('GET https://other.example.com/')],
  ['another place in our code', of({ frames: ['    at stop (/app/src/gateway.ts:10:5)'] })],
])('%s is another group', (_, other) => {
  expect(other).not.toBe(of({}))
  expect(other).not.toBe(ofMessage('GET https://api.example.com/'))
})

test('an apostrophe is not a quote', () => {
  expect(ofMessage("can't read, won't write")).not.toBe(ofMessage("can't fly, won't write"))
})

test('only our own first three frames count, and neither their lines nor their folders', () => {
  const moved = [
    '    at Converter.send (C:\\build\\src\\gateway.ts:77:1)',
    '    at run (webpack://x/src/convert.ts:1:1)',
    '    at node:internal/timers:1:1',
  ]
  expect(of({ frames: moved })).toBe(of({}))
  const three = [...moved, '    at third (/x/c.ts:1:1)']
  expect(of({ frames: [...three, '    at fourth (/x/d.ts:1:1)'] })).toBe(of({ frames: three }))
})

test('any text can be fingerprinted, always to the same value, in time proportional to its length', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 2000 }), (message) => {
      expect(ofMessage(message)).toBe(ofMessage(message))
    }),
  )
  for (const unit of ['/', '/a', "'", 'a1-', '1.', 'a://', '\\ ']) {
    const started = performance.now()
    ofMessage(unit.repeat(10_000))
    expect(performance.now() - started, unit).toBeLessThan(200)
  }
})
