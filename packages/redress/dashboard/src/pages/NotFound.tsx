import { isOwner } from '../api/session.ts'
import { Page } from '../parts/Page.tsx'

export function NotFound() {
  return (
    <Page title="There is no such page">
      <p>
        The address may have been cut off.{' '}
        {!isOwner() && (
          <>
            Go to the <a href="/">overview</a>, or
          </>
        )}{' '}
        {isOwner() ? 'Look' : 'look'} for a <a href="/jobs">job</a>.
      </p>
    </Page>
  )
}
