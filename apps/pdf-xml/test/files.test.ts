import { expect, test } from 'vitest'
import { NotWellFormed, TooMuchXml, wellFormed } from '../src/files.ts'

async function passed(...chunks: (string | Uint8Array)[]): Promise<string> {
  async function* sent() {
    for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
  }
  const got: Uint8Array[] = []
  for await (const chunk of wellFormed(sent())) got.push(chunk)
  return Buffer.concat(got).toString()
}

test('well-formed XML passes unchanged, however it is divided into chunks', async () => {
  const xml = '<?xml version="1.0"?><d a="1"><p>Ä €</p><q/></d>'
  const bytes = Buffer.from(xml)
  expect(await passed(...Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)))).toBe(xml)
})

test.each([
  ['has a tag that is not closed', '<d><a></d>'],
  ['ends too early', '<d><a/>'],
  ['is empty', ''],
  ['goes on after its end', '<d/>more'],
  ['is not UTF-8', Buffer.from('<d>\xe9</d>', 'latin1')],
  ['names an entity that nobody knows', '<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]><d>&a;</d>'],
  ['is nested without end', '<a>'.repeat(2_000)],
])('an answer that %s is none', async (_, xml) => {
  await expect(passed(xml)).rejects.toBeInstanceOf(NotWellFormed)
})

test('more than is kept of one file is refused before it is looked into', async () => {
  await expect(passed('<d>', Buffer.alloc(256 * 2 ** 20))).rejects.toBeInstanceOf(TooMuchXml)
})
