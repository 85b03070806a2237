import { signal } from '@preact/signals'
import { Icon } from './Icon.tsx'

const THEMES = ['auto', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

const stored = localStorage.getItem('redress.theme')
const theme = signal<Theme>(THEMES.find((one) => one === stored) ?? 'auto')

const system = matchMedia('(prefers-color-scheme: dark)')
/** What holds now, for what takes its colours only when it is drawn. */
export const isDark = signal(false)

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme.value
  isDark.value = theme.value === 'auto' ? system.matches : theme.value === 'dark'
}
system.addEventListener('change', applyTheme)

/** What the system wants, until somebody says otherwise on this browser. */
export function ThemeButton() {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] as Theme
  return (
    <button
      type="button"
      class="plain small theme"
      title={`Theme: ${theme.value}. Change to ${next}.`}
      onClick={() => {
        theme.value = next
        localStorage.setItem('redress.theme', next)
        applyTheme()
      }}
    >
      <Icon name="theme" />
      <span class="unseen">
        Theme: {theme.value}. Change to {next}.
      </span>
    </button>
  )
}
