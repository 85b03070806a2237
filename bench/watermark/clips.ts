/** Generated films, by name. Others are named on the command line. */
export const CLIPS: Readonly<Record<string, string>> = {
  chart: 'testsrc2=s=1280x720:r=25',
  fractal: 'mandelbrot=s=1280x720:r=25:start_scale=0.5:end_scale=0.05:end_pts=200',
  gradients: 'gradients=s=1280x720:r=25:n=5:speed=0.02:seed=7,noise=alls=3:allf=t',
  cells: 'life=s=320x180:r=25:ratio=0.3:seed=3:mold=20:life_color=#c0d0ff:death_color=#204010,scale=1280:720,gblur=4',
  still: 'mandelbrot=s=1280x720:r=25:start_scale=0.02:end_scale=0.02,noise=alls=4:allf=t',
}

export interface Attack {
  name: string
  filter?: string
  crf: number
  /** Seconds that are cut off at the beginning. */
  cut?: number
}

/** What a mark must survive. 480p of 720p is two thirds; of a smaller film, it is as much smaller. */
export const PROMISED: readonly Attack[] = [
  { name: 'CRF 23', crf: 23 },
  { name: 'CRF 28', crf: 28 },
  { name: '480p', filter: 'scale=trunc(iw/3)*2:trunc(ih/3)*2', crf: 23 },
]

/** What weakens or defeats it. */
export const OTHERS: readonly Attack[] = [
  { name: 'CRF 35', crf: 35 },
  { name: '240p, CRF 30', filter: 'scale=trunc(iw/6)*2:trunc(ih/6)*2', crf: 30 },
  { name: 'cut by 1.1 s', cut: 1.1, crf: 23 },
  { name: 'noise', filter: 'noise=alls=20:allf=t', crf: 23 },
  { name: 'blur, 10 px', filter: 'gblur=10', crf: 23 },
  { name: 'crop of 1 %', filter: 'crop=iw*0.99:ih*0.99', crf: 23 },
  { name: 'crop of 5 %', filter: 'crop=iw*0.95:ih*0.95', crf: 23 },
  { name: 'crop of 20 %, at a corner', filter: 'crop=iw*0.8:ih*0.8:0:0', crf: 23 },
  { name: 'crop to half', filter: 'crop=iw*0.5:ih*0.5', crf: 23 },
  { name: 'crop of the sides to 4:3', filter: 'crop=ih*4/3:ih', crf: 23 },
  { name: 'borders', filter: 'pad=iw*1.25:ih:iw*0.125:0', crf: 23 },
  { name: 'mirrored', filter: 'hflip', crf: 23 },
  { name: 'mirrored, crop of 5 %', filter: 'hflip,crop=iw*0.95:ih*0.95', crf: 23 },
  { name: 'turned by 1 degree', filter: 'rotate=PI/180', crf: 23 },
  { name: 'turned by 5 degrees', filter: 'rotate=PI/36', crf: 23 },
  { name: 'upside down', filter: 'vflip', crf: 23 },
]
