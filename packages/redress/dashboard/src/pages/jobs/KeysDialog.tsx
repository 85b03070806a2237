import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { areKeysOn, setKeysOn } from '../../parts/keys.ts'

const KEYS = [
  ['/', 'Write a filter'],
  ['j', 'The next job'],
  ['k', 'The job before'],
  ['Enter or o', 'Open the job'],
  ['r', 'Retry the job, after you have confirmed'],
  ['?', 'Show these keys'],
] as const

/** Which keys there are; and that they can be turned off. */
export function KeysDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [areOn, setOn] = useState(areKeysOn)
  useLayoutEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={onClose}>
      <h2 id="keys-title">Keys of this page</h2>
      <dl class="facts keys">
        {KEYS.map(([key, does]) => (
          <>
            <dt key={key}>
              <kbd>{key}</kbd>
            </dt>
            <dd key={does}>{does}</dd>
          </>
        ))}
      </dl>
      <p class="quiet">They do nothing while you write in a field.</p>
      <label class="check" htmlFor="keys-on">
        <input
          id="keys-on"
          type="checkbox"
          checked={areOn}
          onChange={({ currentTarget: { checked } }) => {
            setKeysOn(checked)
            setOn(checked)
          }}
        />
        Use these keys in this browser
      </label>
      <p class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </p>
    </dialog>
  )
}
