/* What the fake runtime has given to the code under test: the memory of each device, and pinned memory. */
#include "libgpu_fake_internal.h"

fake_account_t fake_accounts[FAKE_GPU_MAX_DEVICES], fake_pinned;

void fake_accounts_begin(void)
{
    for (int i = 0; i < FAKE_GPU_MAX_DEVICES; i++) {
        fake_accounts[i] = (fake_account_t){.room = UINT64_MAX};
    }
    fake_pinned = (fake_account_t){.room = UINT64_MAX};
}

bool fake_debit(fake_account_t *a, uint64_t bytes)
{
    if (bytes > a->room - a->given) {
        return false;
    }
    a->given += bytes;
    a->most = a->given > a->most ? a->given : a->most;
    return true;
}

void fake_gpu_room(int device, uint64_t bytes)
{
    pthread_mutex_lock(&fake_machine.lock);
    fake_accounts[device].room = bytes > fake_accounts[device].given ? bytes : fake_accounts[device].given;
    pthread_mutex_unlock(&fake_machine.lock);
}

static uint64_t locked(const uint64_t *value)
{
    uint64_t v;

    pthread_mutex_lock(&fake_machine.lock);
    v = *value;
    pthread_mutex_unlock(&fake_machine.lock);
    return v;
}

uint64_t fake_gpu_most(int device)
{
    return locked(&fake_accounts[device].most);
}

uint64_t fake_gpu_given(int device)
{
    return locked(&fake_accounts[device].given);
}

uint64_t fake_gpu_pinned_most(void)
{
    return locked(&fake_pinned.most);
}

uint64_t fake_gpu_pinned(void)
{
    return locked(&fake_pinned.given);
}

uint64_t fake_gpu_kept(void)
{
    uint64_t bytes = 0;

    pthread_mutex_lock(&fake_machine.lock);
    for (const fake_range_t *i = fake_ranges, *r; i; i = i->next) {
        for (r = fake_ranges; i->home_id && r && r->id != i->home_id; r = r->next) {
        }
        bytes += r || i->maps ? 0 : i->size;
    }
    pthread_mutex_unlock(&fake_machine.lock);
    return bytes;
}
