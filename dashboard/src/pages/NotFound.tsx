import { Page } from '../parts/Page.tsx'

export function NotFound() {
  return (
    <Page title="There is no such page">
      <p>
        The address may have been cut off. Go to the <a href="/">overview</a>, or look for a <a href="/jobs">job</a>.
      </p>
    </Page>
  )
}
