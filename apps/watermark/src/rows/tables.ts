import type { Tables } from './rows.ts'

/**
 * The tables of campaigns. A campaign has the id of its batch and a token that of its job, so neither stores the
 * other's state: `state` is only the progress of publishing, and everything after that is the batch's. Owners have
 * the engine's names. An account can be disabled but not deleted, so there is no foreign key to it.
 */
export const TABLES: Tables = {
  name: 'watermark',
  copyOrder: ['wm_assets', 'wm_campaigns', 'wm_tokens', 'wm_detections', 'wm_keys'],
  versions: [
    `CREATE TABLE wm_assets (
      id text PRIMARY KEY,
      account_id text NOT NULL,
      name text NOT NULL,
      kind text NOT NULL CHECK (kind IN ('video', 'image')),
      bytes bigint NOT NULL,
      sha256 text NOT NULL,
      width bigint NOT NULL,
      height bigint NOT NULL,
      duration_ms bigint NOT NULL,
      codec text NOT NULL,
      created_at bigint NOT NULL
    );
    CREATE INDEX wm_assets_account ON wm_assets (account_id, id);
    CREATE TABLE wm_campaigns (
      id text PRIMARY KEY,
      account_id text NOT NULL,
      asset_id text NOT NULL REFERENCES wm_assets (id),
      name text NOT NULL,
      max_downloads bigint CHECK (max_downloads > 0),
      expires_at bigint,
      visible_wm bigint NOT NULL DEFAULT 1 CHECK (visible_wm IN (0, 1)),
      invisible_wm bigint NOT NULL DEFAULT 1 CHECK (invisible_wm IN (0, 1)),
      state text NOT NULL DEFAULT 'DRAFT' CHECK (state IN ('DRAFT', 'PUBLISHING', 'PUBLISHED')),
      created_at bigint NOT NULL,
      published_at bigint
    );
    CREATE INDEX wm_campaigns_account ON wm_campaigns (account_id, id);
    CREATE INDEX wm_campaigns_publishing ON wm_campaigns (id) WHERE state = 'PUBLISHING';
    CREATE TABLE wm_tokens (
      id text PRIMARY KEY,
      campaign_id text NOT NULL REFERENCES wm_campaigns (id) ON DELETE CASCADE,
      position bigint NOT NULL,
      recipient_name text NOT NULL,
      recipient_email text NOT NULL,
      downloads bigint NOT NULL DEFAULT 0,
      revoked_at bigint,
      UNIQUE (campaign_id, position)
    )`,
    // The searches of a campaign: jobs cannot be found by their input.
    `CREATE TABLE wm_detections (
      id text PRIMARY KEY,
      campaign_id text NOT NULL REFERENCES wm_campaigns (id) ON DELETE CASCADE,
      file_name text NOT NULL,
      created_at bigint NOT NULL
    );
    CREATE INDEX wm_detections_campaign ON wm_detections (campaign_id, id)`,
    // The fingerprint of the key that a campaign is marked with: marks of one key cannot be found with another.
    `CREATE TABLE wm_keys (
      campaign_id text PRIMARY KEY REFERENCES wm_campaigns (id) ON DELETE CASCADE,
      key_id text NOT NULL
    )`,
  ],
}
