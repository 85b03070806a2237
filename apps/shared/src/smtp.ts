/** smtp://user:password@mail.example.org:587 */
export function smtpOf(address: string) {
  const { protocol, hostname, port, username, password } = new URL(address)
  const auth = { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  return {
    host: hostname,
    secure: protocol === 'smtps:',
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { auth }),
  }
}
