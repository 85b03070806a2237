export interface SseMessage {
  /** null where this message names none. */
  id: string | null
  event: string
  data: string
}

const LINE_END = /\r\n|\r|\n/

/** The messages of an event stream. Comments are passed over; the connection lives, and that is all they say. */
export async function* readSse(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder()
  let rest = ''
  let id: string | null = null
  let event = 'message'
  let data: string[] = []
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true })
    // A bare CR at the end may be the first half of CR LF.
    const end = rest.endsWith('\r') ? rest.length - 1 : rest.length
    const lines = rest.slice(0, end).split(LINE_END)
    rest = (lines.pop() as string) + rest.slice(end)
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { id, event, data: data.join('\n') }
        id = null
        event = 'message'
        data = []
        continue
      }
      const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
      if (field === 'id') id = value
      else if (field === 'event') event = value
      else if (field === 'data') data.push(value)
    }
  }
}
