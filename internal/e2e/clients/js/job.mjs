// What both programs have in common: the job, the order of its steps, and the
// form of the report.
import { readFileSync } from 'node:fs'

export const job = JSON.parse(readFileSync(0, 'utf8'))

const members = ({ scope, expires_in, token_type, refresh_token, access_token }) =>
  ({ scope, expires_in, token_type, refresh_token, access_token })

// The library's own error, in the words of RFC 6749 section 5.2. Any other
// failure ends the program.
async function refused(promise) {
  try {
    await promise
  } catch (e) {
    if (e.name === 'ResponseBodyError') {
      return { status: e.status, error: e.error, error_description: e.error_description }
    }
    if (e.name === 'WWWAuthenticateChallengeError') {
      return { status: e.status, challenge: e.cause[0].scheme, realm: e.cause[0].parameters.realm }
    }
    throw e
  }
  throw new Error('nothing was refused')
}

export async function report({ exchange, refresh }) {
  const done = {}
  // None of these may burn the code.
  if (job.wrong_verifier) {
    done.wrong_verifier = await refused(exchange(job.wrong_verifier))
  }
  if (job.wrong_secret) {
    done.wrong_secret = await refused(exchange(job.code_verifier, job.wrong_secret))
  }
  done.exchanged = members(await exchange(job.code_verifier))
  done.refreshed = members(await refresh(done.exchanged.refresh_token))
  done.repeated = members(await refresh(done.exchanged.refresh_token))
  done.again = members(await refresh(done.refreshed.refresh_token))
  // The first token is older than two refreshes: replay, whatever the window.
  done.replayed = await refused(refresh(done.exchanged.refresh_token))
  done.dead = await refused(refresh(done.again.refresh_token))
  console.log(JSON.stringify(done))
}
