import 'uplot/dist/uPlot.min.css'
import uPlot from 'uplot'

/** Seconds since the epoch, then one row of values for each series. */
export type ChartData = readonly (readonly (number | null)[])[]

export interface ChartShape {
  series: readonly { label: string /** Name of a CSS variable. */; color: string; dash?: readonly number[] }[]
  /** Each value stands on the one before it. */
  isStacked: boolean
  /** What is counted has no halves. */
  isWhole: boolean
  format: (value: number) => string
}

export interface DrawnChart {
  update(data: ChartData): void
  remove(): void
}

const HEIGHT = 160
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const FINE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000].concat(
  [2, 5, 10, 20, 30, 60, 120, 300, 720, 1_440].map((minutes) => minutes * 60_000),
)
const WHOLE_STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat()

/** Each row with those that follow it: the first is the whole and is drawn first, and the others lie before it. */
function stacked(data: ChartData): ChartData {
  const [times = [], ...rows] = data
  const sums = times.map(() => 0)
  const heaped = rows.toReversed().map((row) =>
    row.map((value, at) => {
      sums[at] = (sums[at] ?? 0) + (value ?? 0)
      return sums[at] ?? 0
    }),
  )
  return [times, ...heaped.toReversed()]
}

export function drawChart(
  place: HTMLElement,
  { series, isStacked, isWhole, format }: ChartShape,
  data: ChartData,
): DrawnChart {
  const style = getComputedStyle(place)
  // A canvas knows no variables: the colours of the theme that holds now are taken.
  const colorOf = (name: string): string => resolved(place, `var(${name})`)
  const ready = (rows: ChartData): uPlot.AlignedData => (isStacked ? stacked(rows) : rows) as uPlot.AlignedData
  const axis = {
    stroke: colorOf('--quiet'),
    grid: { stroke: colorOf('--line'), width: 1 },
    font: `12px ${style.fontFamily}`,
  }
  const chart = new uPlot(
    {
      width: place.clientWidth,
      height: HEIGHT,
      cursor: { y: false },
      legend: { show: true, live: false },
      scales: { y: { range: (_chart, _least, most) => [0, Math.max(1, (most ?? 0) * 1.1)] } },
      axes: [
        { ...axis, size: 30, values: (_chart, splits) => splits.map((seconds) => TIME.format(seconds * 1000)) },
        {
          ...axis,
          size: 56,
          values: (_chart, splits) => splits.map(format),
          incrs: isWhole ? WHOLE_STEPS : FINE_STEPS,
        },
      ],
      series: [
        {},
        ...series.map(({ label, color, dash }) => ({
          label,
          stroke: colorOf(color),
          width: 1.5,
          ...(dash !== undefined && { dash: [...dash] }),
          ...(isStacked && {
            fill: colorOf(color),
            paths: uPlot.paths.bars?.({ size: [0.9] }) as uPlot.Series.PathBuilder,
          }),
          // A value between two that are missing has no line: it is a point.
          points: isStacked ? { show: false } : { show: true, size: 4, fill: colorOf(color) },
        })),
      ],
    } as uPlot.Options,
    ready(data),
    place,
  )
  const watch = new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: HEIGHT }))
  watch.observe(place)
  return {
    update: (rows) => chart.setData(ready(rows)),
    remove: () => {
      watch.disconnect()
      chart.destroy()
    },
  }
}

function resolved(place: HTMLElement, color: string): string {
  const probe = document.createElement('span')
  probe.style.color = color
  place.append(probe)
  const found = getComputedStyle(probe).color
  probe.remove()
  return found
}
