import './styles/base.css'
import './styles/frame.css'
import './styles/parts.css'
import { render } from 'preact'
import { App } from './App.tsx'
import { followWhileSeen } from './api/live.ts'
import { answerOf } from './api/perform.ts'
import { type Me, me } from './api/session.ts'
import { applyTheme } from './parts/Theme.tsx'

applyTheme()
render(<App />, document.getElementById('app') as HTMLElement)
try {
  me.value = (await answerOf(await fetch('/api/me', { headers: { accept: 'application/json' } }))) as Me
} catch {
  // Signed out, or not reached: the page says which.
}
followWhileSeen()
