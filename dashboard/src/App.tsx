import { ErrorBoundary, LocationProvider, lazy, Route, Router } from 'preact-iso'
import { NotFound } from './pages/NotFound.tsx'
import { Overview } from './pages/Overview.tsx'
import { Layout } from './parts/Layout.tsx'

// The page that is looked at first is loaded with the app; each other one when somebody goes there.
const Failures = lazy(() => import('./pages/Failures.tsx'))
const FailureGroup = lazy(() => import('./pages/FailureGroup.tsx'))
const Jobs = lazy(() => import('./pages/Jobs.tsx'))
const Job = lazy(() => import('./pages/Job.tsx'))
const Batches = lazy(() => import('./pages/Batches.tsx'))
const Batch = lazy(() => import('./pages/Batch.tsx'))
const DeadLetters = lazy(() => import('./pages/DeadLetters.tsx'))
const DeadLetter = lazy(() => import('./pages/DeadLetter.tsx'))
const Replays = lazy(() => import('./pages/Replays.tsx'))
const NewReplay = lazy(() => import('./pages/NewReplay.tsx'))
const Replay = lazy(() => import('./pages/Replay.tsx'))
const Orphans = lazy(() => import('./pages/Orphans.tsx'))
const Breakers = lazy(() => import('./pages/Breakers.tsx'))
const Queues = lazy(() => import('./pages/Queues.tsx'))
const Workers = lazy(() => import('./pages/Workers.tsx'))
const Schedules = lazy(() => import('./pages/Schedules.tsx'))
const Policies = lazy(() => import('./pages/Policies.tsx'))
const Policy = lazy(() => import('./pages/Policy.tsx'))
const Audit = lazy(() => import('./pages/Audit.tsx'))

export function App() {
  return (
    <LocationProvider>
      <Layout>
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
      </Layout>
    </LocationProvider>
  )
}
