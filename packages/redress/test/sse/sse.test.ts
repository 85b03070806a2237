import { Readable } from 'node:stream'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { turns } from '../../../../test/support/until.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { formatSse, sseComment, sseStream } from '../../src/sse/index.ts'

/** As a browser reads it, in pieces of any size. */
function parse(text: string, pieceChars = text.length || 1) {
  const messages: EventSourceMessage[] = []
  const retries: number[] = []
  const comments: string[] = []
  const parser = createParser({
    onEvent: (message) => void messages.push(message),
    onRetry: (ms) => void retries.push(ms),
    onComment: (comment) => void comments.push(comment),
    onError: (error) => {
      throw error
    },
  })
  for (let at = 0; at < text.length; at += pieceChars) parser.feed(text.slice(at, at + pieceChars))
  return { messages, retries, comments }
}

describe('a message', () => {
  test('is read as it was written', () => {
    const text = formatSse({ id: '17.2', event: 'token_failed', data: { token_id: 5, error: 'no' } })
    expect(text).toBe('id: 17.2\nevent: token_failed\ndata: {"token_id":5,"error":"no"}\n\n')
    expect(parse(text).messages).toEqual([{ id: '17.2', event: 'token_failed', data: '{"token_id":5,"error":"no"}' }])
  })

  test('carries any text: line breaks, quotes, every script, and what looks like a field', () => {
    const hostile = [
      'a\nb',
      'a\r\nb',
      'a\rb',
      '\n\ndata: {}\n\n',
      'id: 9',
      '"',
      '\\',
      '\u2028\u2029',
      '\0',
      '😀 ümlaut ع',
      '\ufeff',
      '\ud800',
    ]
    for (const error of hostile) {
      const text = formatSse({ id: 1, event: 'e', data: { error } })
      expect(text.split('\n')).toHaveLength(5)
      expect(JSON.parse(parse(text).messages[0]?.data ?? '')).toEqual({ error })
    }
  })

  test('is read back whatever its data is and however it is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { minLength: 1 }), fc.integer({ min: 1, max: 20 }), (values, pieceChars) => {
        const text = values.map((data, i) => formatSse({ id: i, event: 'e', data })).join(sseComment('beat'))
        const { messages } = parse(text, pieceChars)
        expect(messages.map(({ data }) => JSON.parse(data))).toEqual(
          values.map((value) => JSON.parse(JSON.stringify(value))),
        )
        expect(messages.map(({ id }) => id)).toEqual(values.map((_, i) => String(i)))
      }),
    )
  })

  test('without an id leaves the one that the browser has', () => {
    expect(formatSse({ id: null, event: 'end', data: {} })).toBe('event: end\ndata: {}\n\n')
  })

  test('may say how long to wait, and a comment says nothing', () => {
    const { messages, retries, comments } = parse(formatSse({ retryMs: 3_000 }) + sseComment('two\nlines'))
    expect([messages, retries, comments]).toEqual([[], [3_000], ['two', 'lines']])
  })

  test.each([
    [{ id: '1\n2' }, 'the id of an event must be one line'],
    [{ id: '1\0' }, 'the id of an event must be one line'],
    [{ event: 'a\r\ndata: x' }, 'the event of an event must be one line'],
    [{ data: () => 1 }, 'must be a JSON value, not function'],
    [{ retryMs: 0.5 }, 'retryMs'],
  ])('%j is refused', (message, problem) => {
    expect(() => formatSse(message)).toThrow(problem)
  })
})

describe('a stream', () => {
  /** Events that are made only when they are asked for, and know how many were. */
  function source(count: number, size = 1) {
    const state = { asked: 0, left: false }
    const events = {
      async next() {
        if (state.asked >= count) return { done: true as const, value: undefined }
        state.asked++
        return { done: false as const, value: { id: String(state.asked), event: 'e', data: 'x'.repeat(size) } }
      },
      async return() {
        state.left = true
        return { done: true as const, value: undefined }
      },
    }
    return { events, state }
  }

  test('gives every event and ends with them', async () => {
    const clock = new VirtualClock()
    let text = ''
    for await (const chunk of sseStream(source(3).events, { clock, retryMs: 1_500 }))
      text += new TextDecoder().decode(chunk)
    const { messages, retries } = parse(text)
    expect(messages.map(({ id }) => id)).toEqual(['1', '2', '3'])
    expect(retries).toEqual([1_500])
  })

  test('says something at once, so that the answer begins', async () => {
    const never = { next: () => new Promise<never>(() => undefined) }
    const reader = sseStream(never, { clock: new VirtualClock() }).getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('retry: 2000\n\n')
  })

  test('asks for no more than its reader reads', async () => {
    const { events, state } = source(1_000, 10_000)
    const stream = sseStream(events, { clock: new VirtualClock() })
    await turns()
    expect(state.asked).toBeLessThan(10)
    const reader = stream.getReader()
    for (let i = 0; i < 20; i++) await reader.read()
    await turns()
    expect(state.asked).toBeLessThan(30)
    await reader.cancel()
    expect(state.left).toBe(true)
  })

  test('beats in silence, but not for a reader that does not read', async () => {
    const clock = new VirtualClock()
    const never = { next: () => new Promise<never>(() => undefined) }
    const reader = sseStream(never, { clock, heartbeatMs: 1_000 }).getReader()
    await reader.read()
    for (let i = 0; i < 3; i++) {
      await clock.advance(1_000)
      expect(new TextDecoder().decode((await reader.read()).value)).toBe(': \n\n')
    }
    // 64 KB of comments, and no more.
    await clock.advance(1_000 * 100_000)
    let bytes = 0
    for (;;) {
      const chunk = await Promise.race([reader.read(), turns(3).then(() => null)])
      if (chunk === null) break
      bytes += chunk.value?.length ?? 0
    }
    expect(bytes).toBeGreaterThan(60_000)
    expect(bytes).toBeLessThan(70_000)
    await reader.cancel()
  })

  test('becomes a Node stream', async () => {
    const node = Readable.fromWeb(sseStream(source(2).events, { clock: new VirtualClock() }) as never)
    let text = ''
    for await (const chunk of node) text += chunk
    expect(parse(text).messages).toHaveLength(2)
  })
})
