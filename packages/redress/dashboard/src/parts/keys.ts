import { useEffect, useRef } from 'preact/hooks'

const OFF = 'redress.keys'

/** Keys of one letter can get in the way of those who speak to their computer: they can be turned off. */
export const areKeysOn = (): boolean => localStorage.getItem(OFF) !== 'off'
export const setKeysOn = (isOn: boolean): void => localStorage.setItem(OFF, isOn ? 'on' : 'off')

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || target.closest('input, textarea, select') !== null)

/** What a key does on this page, unless somebody types, a dialog is open, or another key is held down with it. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
      if (isTyping(event.target) || document.querySelector('dialog[open]') !== null) return
      const act = latest.current[event.key]
      if (act === undefined || !(areKeysOn() || event.key === '?')) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}
