import { useLayoutEffect, useRef } from 'preact/hooks'

const OFF = 'redress.keys'

/** Keys of one letter can get in the way of those who speak to their computer: they can be turned off. */
export const areKeysOn = (): boolean => localStorage.getItem(OFF) !== 'off'
export const setKeysOn = (isOn: boolean): void => localStorage.setItem(OFF, isOn ? 'on' : 'off')

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || target.closest('input, textarea, select') !== null)

/** Defines the keys of a page. They do nothing in a text field, under an open dialog, or with Ctrl, Meta or Alt. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys)
  latest.current = keys
  // Before the paint: a key that is pressed as soon as the page is visible must not be lost.
  useLayoutEffect(() => {
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
