import { signal } from '@preact/signals'

export interface Announcement {
  text: string
  tone: 'good' | 'bad'
  id: number
}

/** What was done, shown in a corner and read out; the newest last. */
export const announcements = signal<readonly Announcement[]>([])

const SHOWN_MS = 8_000
let lastId = 0

export function announce(text: string, tone: Announcement['tone'] = 'good'): void {
  const id = ++lastId
  announcements.value = [...announcements.value.slice(-2), { text, tone, id }]
  setTimeout(() => dismiss(id), SHOWN_MS)
}

export function dismiss(id: number): void {
  announcements.value = announcements.value.filter((one) => one.id !== id)
}
