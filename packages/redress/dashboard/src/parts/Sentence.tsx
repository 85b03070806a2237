import { Clock } from './Time.tsx'

const TIME = /(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)/

/** A sentence of the server, with its times by the clock of whoever reads. */
export function Sentence({ text }: { text: string }) {
  return (
    <span class="said">
      {text.split(TIME).map((part) => (TIME.test(part) ? <Clock key={part} at={part} /> : part))}
    </span>
  )
}
