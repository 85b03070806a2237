import type { ComponentType } from 'preact'
import { ErrorBoundary, LocationProvider, lazy, Route, Router } from 'preact-iso'
import { NotFound } from './pages/NotFound.tsx'
import { Overview } from './pages/overview/Overview.tsx'
import { NotLoaded, PageErrorBoundary } from './parts/ErrorBoundary.tsx'
import { Layout } from './parts/Layout.tsx'

/** The page that is looked at first is loaded with the app; each other one when somebody goes there. */
const page = (load: () => Promise<{ default: ComponentType }>) =>
  lazy(() => load().catch((): { default: ComponentType } => ({ default: NotLoaded })))

const Failures = page(() => import('./pages/failures/Failures.tsx'))
const FailureGroup = page(() => import('./pages/failures/FailureGroup.tsx'))
const Jobs = page(() => import('./pages/jobs/Jobs.tsx'))
const Job = page(() => import('./pages/job/Job.tsx'))
const Batches = page(() => import('./pages/batches/Batches.tsx'))
const Batch = page(() => import('./pages/batches/Batch.tsx'))
const DeadLetters = page(() => import('./pages/dead-letters/DeadLetters.tsx'))
const DeadLetter = page(() => import('./pages/dead-letters/DeadLetter.tsx'))
const Replays = page(() => import('./pages/replays/Replays.tsx'))
const NewReplay = page(() => import('./pages/replays/NewReplay.tsx'))
const Replay = page(() => import('./pages/replays/Replay.tsx'))
const Orphans = page(() => import('./pages/Orphans.tsx'))
const Breakers = page(() => import('./pages/breakers/Breakers.tsx'))
const Queues = page(() => import('./pages/Queues.tsx'))
const Workers = page(() => import('./pages/Workers.tsx'))
const Schedules = page(() => import('./pages/Schedules.tsx'))
const Policies = page(() => import('./pages/policies/Policies.tsx'))
const Policy = page(() => import('./pages/policies/Policy.tsx'))
const Audit = page(() => import('./pages/Audit.tsx'))

export function App() {
  return (
    <LocationProvider>
      <Layout>
        <PageErrorBoundary>
          <ErrorBoundary>
            <Router>
              <Route path="/" component={Overview} />
              <Route path="/failures" component={Failures} />
              <Route path="/failures/:fingerprint" component={FailureGroup} />
              <Route path="/jobs" component={Jobs} />
              <Route path="/jobs/:id" component={Job} />
              <Route path="/batches" component={Batches} />
              <Route path="/batches/:id" component={Batch} />
              <Route path="/dead-letters" component={DeadLetters} />
              <Route path="/dead-letters/:offset" component={DeadLetter} />
              <Route path="/replays" component={Replays} />
              <Route path="/replays/new" component={NewReplay} />
              <Route path="/replays/:id" component={Replay} />
              <Route path="/orphans" component={Orphans} />
              <Route path="/breakers" component={Breakers} />
              <Route path="/queues" component={Queues} />
              <Route path="/workers" component={Workers} />
              <Route path="/schedules" component={Schedules} />
              <Route path="/policies" component={Policies} />
              <Route path="/policies/:type" component={Policy} />
              <Route path="/audit" component={Audit} />
              <Route default component={NotFound} />
            </Router>
          </ErrorBoundary>
        </PageErrorBoundary>
      </Layout>
    </LocationProvider>
  )
}
