import './styles/base.css'
import './styles/frame.css'
import './styles/parts.css'
import { effect } from '@preact/signals'
import { render } from 'preact'
import { App } from './App.tsx'
import { followWhileSeen, isLive } from './api/live.ts'
import { answerOf } from './api/perform.ts'
import { type Me, me } from './api/session.ts'
import { applyTheme } from './parts/Theme.tsx'

applyTheme()
render(<App />, document.getElementById('app') as HTMLElement)

async function meet(): Promise<void> {
  try {
    me.value = (await answerOf(await fetch('/api/me', { headers: { accept: 'application/json' } }))) as Me
  } catch {
    // Signed out, or not reached: the page says which.
  }
}

await meet()
// Who could not be asked for then is asked for as soon as the server is there.
effect(() => {
  if (isLive.value && me.peek() === null) void meet()
})
followWhileSeen()
