import { useEffect, useRef, useState } from 'preact/hooks'
import { isDark } from '../Theme.tsx'
import type { ChartData, ChartShape, DrawnChart } from './draw-chart.ts'

interface Props {
  /** For those who do not see it. */
  label: string
  shape: ChartShape
  data: ChartData
}

/** A chart. What draws it is loaded only where one is. */
export function Chart({ label, shape, data }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const [drawn, setDrawn] = useState<DrawnChart | null>(null)
  const look = isDark.value
  useEffect(() => {
    let isGone = false
    let chart: DrawnChart | null = null
    const draw = async (): Promise<void> => {
      const { drawChart } = await import('./draw-chart.ts')
      if (isGone || place.current === null) return
      chart = drawChart(place.current, shape, data)
      setDrawn(chart)
    }
    void draw()
    return () => {
      isGone = true
      chart?.remove()
    }
  }, [shape, look])
  useEffect(() => drawn?.update(data), [drawn, data])
  return (
    <figure class="chart">
      <figcaption>{label}</figcaption>
      <div ref={place} class="chart-place" role="img" aria-label={`${label}. The figures are in the table below.`} />
    </figure>
  )
}
