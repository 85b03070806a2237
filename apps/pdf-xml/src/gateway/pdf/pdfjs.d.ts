/** The package types only its readable builds; these are the same ones, quicker to load and smaller in memory. */
declare module 'pdfjs-dist/legacy/build/pdf.min.mjs' {
  export { getDocument } from 'pdfjs-dist/legacy/build/pdf.mjs'
}

declare module 'pdfjs-dist/legacy/build/pdf.worker.min.mjs' {
  export const WorkerMessageHandler: unknown
}
