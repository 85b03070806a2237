/** Drawn on a grid of 16; shape says what colour says, too. */
const PATHS = {
  caller: 'M8 8.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2.5 14c.6-2.7 2.8-4 5.5-4s4.9 1.3 5.5 4',
  dependency: 'M6.5 9.5l3-3M7 4.5l1.3-1.3a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5l-1.3 1.3a3 3 0 0 1-4.5-4.5L4.5 7',
  system: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  code: 'M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5',
  operator: 'M8 2v4M5.5 2.8v4.4M10.5 2.8V8M3 6v3.5C3 12 5 14 8 14s5-2 5-4.5V5',
  unknown: 'M5.8 6a2.2 2.2 0 1 1 3.3 1.9C8.3 8.4 8 8.9 8 9.6M8 12.5h.01',
  queued: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 5v3l2 1.5',
  processing: 'M13 8a5 5 0 1 1-1.6-3.7M13 1.8v3h-3',
  complete: 'M3 8.5l3.2 3.2L13 5',
  failed: 'M4 4l8 8M12 4l-8 8',
  cancelled: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M4 4l8 8',
  open: 'M8 2.5L14 13H2zM8 6.5v3M8 11.3h.01',
  snoozed: 'M12.5 10A5.5 5.5 0 0 1 6 3.5 5.5 5.5 0 1 0 12.5 10',
  resolved: 'M3 8.5l3.2 3.2L13 5',
  regressed: 'M2.5 6.5h7a4 4 0 0 1 0 7H7M5.5 3.5l-3 3 3 3',
  orphan: 'M8 2.5v6M8 12.5h.01M3 14h10',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  close: 'M4 4l8 8M12 4l-8 8',
  copy: 'M5.5 5.5h7v7h-7zM3.5 10.5v-7h7',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.5 10.5L14 14',
  theme: 'M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12M8 2v12M10.5 3v10M13 5v6',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  )
}
